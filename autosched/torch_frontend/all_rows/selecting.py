"""Operators that select rows by a mask, or that read rows at selected indices."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Final

from autosched.torch_frontend.all_rows.call import RowCall, Rule
from autosched.torch_frontend.all_rows.rows import SelectedRows, Selection


def _index(call: RowCall) -> Any:
    """A selection by truth values, or rows at selected indices."""
    given = [(axis, index) for axis, index in enumerate(call["indices"]) if index is not None]
    masks = [(axis, index) for axis, index in given if is_mask(index)]
    if masks:
        call.require(len(given) == 1, "a mask beside indices")
        return _selected(call, *masks[0])
    call.whole("self")
    kept = [index.from_end for _, index in given if isinstance(index, SelectedRows)]
    check_alignment(call, [index for _, index in given], kept[0])
    return call.of_each_row(call.selection)


def _dtype(value: Any) -> Any:
    return value.data.dtype if isinstance(value, SelectedRows) else value.dtype


def is_mask(value: Any) -> bool:
    """Whether a tensor is of truth values."""
    import torch

    return _dtype(value) in (torch.bool, torch.uint8)


def check_alignment(call: RowCall, values: list[Any], from_end: int) -> None:
    """Raise NotTakenError unless, broadcast to each other, rows of tensors meet the same rows.

    Args:
        call: of an operator.
        values: tensors, with selected rows or without; others do not matter.
        from_end: the dimension of the rows, negative.
    """
    for value in values:
        if isinstance(value, SelectedRows):
            call.require(value.from_end == from_end, "rows along several dimensions")
        elif hasattr(value, "shape") and value.dim() >= -from_end:
            call.require(value.shape[from_end] == 1, "rows that all have an element of their own")


def _selected(call: RowCall, axis: int, mask: Any) -> Any:
    import torch

    data = call["self"]
    call.require(_dtype(mask) == torch.bool, "bytes as a mask")
    if isinstance(mask, SelectedRows) or isinstance(data, SelectedRows):
        return _selected_again(call, axis, mask, data)
    shape = data.shape
    rows = data.reshape(*shape[:axis], mask.numel(), *shape[axis + mask.dim() :])
    return call.finished(rows, call.selections.of_mask(mask))


def _selected_again(call: RowCall, axis: int, mask: Any, data: Any) -> Any:
    """Among selected rows; a mask along another dimension than theirs is not taken."""
    both = isinstance(mask, SelectedRows) and isinstance(data, SelectedRows)
    call.require(both and mask.data.dim() == 1 and axis == data.axis, "a mask of other rows")
    return call.finished(data.data, call.selections.within(call.selection, mask.data))


def _masked_select(call: RowCall) -> Any:
    data, mask = call.whole("self"), call.whole("mask")
    call.require(data.shape == mask.shape, "a mask of another shape")
    return call.finished(data.reshape(-1), call.selections.of_mask(mask))


def _nonzero(call: RowCall) -> Any:
    """Places of what is not zero: indices along each dimension."""
    data = call.whole("self")
    return call.finished(_coordinates(data), _selection_of_nonzero(call, data))


def _nonzero_columns(call: RowCall) -> Any:
    """The same, each dimension's own."""
    (data,) = [value for value in call.given.values() if value is not None]
    call.require(not isinstance(data, SelectedRows), "places among selected rows")
    return call.finished(list(_coordinates(data).unbind(1)), _selection_of_nonzero(call, data))


def _selection_of_nonzero(call: RowCall, data: Any) -> Selection:
    import torch

    return call.selections.of_mask(data if data.dtype == torch.bool else data != 0)


def _coordinates(data: Any) -> Any:
    """Of all elements, ``[elements, dimensions]``."""
    import torch

    every = torch.arange(data.numel())
    columns = [
        (every // prod(data.shape[axis + 1 :])) % data.shape[axis] for axis in range(data.dim())
    ]
    return torch.stack(columns, 1)


def _index_select(call: RowCall) -> Any:
    """Selected indices; or all indices, along another dimension than that of selected rows."""
    data = call["self"]
    if isinstance(data, SelectedRows):
        call.whole("index")
        call.require(data.axis not in call.dims("dim", data), "places among selected rows")
    return call.of_each_row(call.selection)


def _embedding(call: RowCall) -> Any:
    call.whole("weight")
    return call.of_each_row(call.selection)


def _gather(call: RowCall) -> Any:
    """Elements of a whole tensor along the dimension of the rows, or of the same rows."""
    data, index = call["self"], call.data("index")
    (dim,) = call.dims("dim", index)
    if isinstance(data, SelectedRows):
        call.require(data.axis == index.axis != dim, "places among selected rows")
    else:
        call.require(dim == index.axis, "rows that all have an element of their own")
    return call.of_each_row(call.selection)


SELECTING: Final[Mapping[str, Rule]] = {
    "embedding.default": _embedding,
    "gather.default": _gather,
    "index.Tensor": _index,
    "index_select.default": _index_select,
    "masked_select.default": _masked_select,
    "nonzero.default": _nonzero,
    "nonzero_numpy.default": _nonzero_columns,
    "where.default": _nonzero_columns,
}
