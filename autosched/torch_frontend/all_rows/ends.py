"""Operators in which selected rows end: they are sent to places, or reduced.

Rows that are left out are sent out of range, where nothing is, or are the identity of a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from autosched.torch_frontend.all_rows.call import RowCall, Rule
from autosched.torch_frontend.all_rows.rows import SelectedRows, Selection
from autosched.torch_frontend.all_rows.selecting import check_alignment, is_mask


def _scatter(call: RowCall) -> Any:
    """Elements to places along the dimension of the rows."""
    data, index = call.whole("self"), call.data("index")
    (dim,) = call.dims("dim", index)
    call.require(dim == index.axis, "rows that all have an element of their own")
    updates = call.given.get("src")
    fits = updates is None or (isinstance(updates, SelectedRows) and updates.axis == dim)
    call.require(fits, "rows of several selections")
    call.check_selection()
    return call.run(index=index.or_else(data.shape[dim]))


def _rows_to_places(call: RowCall) -> Any:
    """Slices to places, added or in place of others."""
    data, index, source = call.whole("self"), call.data("index"), call.data("source")
    (dim,) = call.dims("dim", source)
    call.require(dim == source.axis, "rows along several dimensions")
    call.check_selection()
    return call.run(index=index.or_else(data.shape[dim]))


def _index_put(call: RowCall) -> Any:
    """Slices to selected indices; or selected rows to where the mask that selects them holds."""
    given = [(axis, index) for axis, index in enumerate(call["indices"]) if index is not None]
    if any(is_mask(index) for _, index in given):
        return _put_at_mask(call, given)
    data = call.whole("self")
    call.check_selection()
    every = all(isinstance(index, SelectedRows) for _, index in given)
    call.require(every, "an index that is the same for all rows")
    axes, indices = [axis for axis, _ in given], [index for _, index in given]
    kept = indices[0].from_end
    check_alignment(call, indices, kept)
    together = axes[-1] - axes[0] == len(axes) - 1
    behind = data.dim() - len(axes) - (axes[0] if together else 0)
    check_alignment(call, [call["values"]], kept - behind)
    # A place is out of range as soon as one index is; the others must not bring it back.
    places: list[Any] = [None] * len(call["indices"])
    for number, (axis, index) in enumerate(given):
        places[axis] = index.or_else(data.shape[axis] if number == 0 else 0)
    return call.run(indices=places)


def _put_at_mask(call: RowCall, given: list[tuple[int, Any]]) -> Any:
    """A number where a mask holds; or the selected rows of a mask, ``x[mask] = rows[mask]``."""
    import torch

    (axis, mask), *others = given
    call.require(not others and not call["accumulate"] and is_mask(mask), "a mask beside indices")
    data, own = call["self"], _all_rows(call["self"])
    flat_mask = _all_rows(mask).reshape(-1)
    behind = own.dim() - axis - _all_rows(mask).dim()
    flat = own.reshape(*own.shape[:axis], len(flat_mask), *own.shape[own.dim() - behind :])
    values = _all_rows(call["values"])
    if isinstance(call["values"], SelectedRows):
        check_alignment(call, [call["values"]], -behind - 1)
        same = _selected_by(call, mask) is call["values"].selection
        call.require(same and values.dim() <= flat.dim(), "rows of another mask")
    else:
        call.require(values.numel() == 1, "a choice among numbers")
        values = values.reshape(())
    chosen = torch.where(flat_mask.reshape(-1, *(1,) * behind), values, flat).reshape(own.shape)
    if not isinstance(data, SelectedRows):
        call.require(not isinstance(mask, SelectedRows), "a mask of other rows")
        return chosen
    call.require(_is_mask_of(mask, data, axis), "a mask of other rows")
    return call.finished(chosen, data.selection)


def _all_rows(value: Any) -> Any:
    return value.data if isinstance(value, SelectedRows) else value


def _selected_by(call: RowCall, mask: Any) -> Selection:
    """The selection of the rows that a mask selects."""
    if isinstance(mask, SelectedRows):
        return call.selections.within(mask.selection, mask.data)
    return call.selections.of_mask(mask)


def _is_mask_of(mask: Any, data: SelectedRows, axis: int) -> bool:
    """Whether a mask at dimension ``axis`` has a truth value for each row, or for its elements."""
    if not isinstance(mask, SelectedRows) or mask.selection is not data.selection:
        return False
    return axis + mask.axis == data.axis


def _zero(dtype: Any) -> int:
    return 0


def _one(dtype: Any) -> int:
    return 1


def _least(dtype: Any) -> Any:
    """No number is smaller."""
    import torch

    if dtype.is_floating_point:
        return -torch.inf
    return False if dtype == torch.bool else torch.iinfo(dtype).min


def _greatest(dtype: Any) -> Any:
    """No number is larger."""
    import torch

    if dtype.is_floating_point:
        return torch.inf
    return True if dtype == torch.bool else torch.iinfo(dtype).max


def _reduced(identity: Callable[[Any], Any], call: RowCall) -> Any:
    """Over the rows, or within each."""
    own = call.data("self")
    if own.axis not in call.dims("dim", own):
        return call.of_each_row(own.selection)
    return call.run(self=own.or_else(identity(own.data.dtype)))


def _mean(call: RowCall) -> Any:
    """The sum over the number of what is added, rounded to 16 bits no earlier than torch does."""
    import torch

    own = call.data("self")
    dims = call.dims("dim", own)
    if own.axis not in dims:
        return call.of_each_row(own.selection)
    dtype = call["dtype"] or own.data.dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    total = own.or_else(0).sum(dims, keepdim=bool(call.given.get("keepdim")), dtype=wide)
    others = 1
    for dim in dims:
        others *= 1 if dim == own.axis else int(own.data.shape[dim])
    return (total / (own.selection.kept.sum() * others).to(wide)).to(dtype)


def _softmax(call: RowCall) -> Any:
    """Of elements of the rows: those that are left out weigh nothing."""
    import torch

    own = call.data("self")
    if own.axis not in call.dims("dim", own):
        return call.of_each_row(own.selection)
    call.require(own.data.dtype.is_floating_point, "integers")
    return call.of_each_row(own.selection, self=own.or_else(-torch.inf))


ENDS: Final[Mapping[str, Rule]] = {
    "_softmax.default": _softmax,
    "_unsafe_index_put.default": _index_put,
    "all.default": partial(_reduced, _one),
    "all.dim": partial(_reduced, _one),
    "amax.default": partial(_reduced, _least),
    "amin.default": partial(_reduced, _greatest),
    "any.default": partial(_reduced, _zero),
    "any.dim": partial(_reduced, _zero),
    "index_add.default": _rows_to_places,
    "index_copy.default": _rows_to_places,
    "index_put.default": _index_put,
    "max.default": partial(_reduced, _least),
    "mean.default": _mean,
    "mean.dim": _mean,
    "min.default": partial(_reduced, _greatest),
    "prod.default": partial(_reduced, _one),
    "prod.dim_int": partial(_reduced, _one),
    "scatter.src": _scatter,
    "scatter.value": _scatter,
    "scatter_add.default": _scatter,
    "scatter_reduce.two": _scatter,
    "softmax.int": _softmax,
    "sum.default": partial(_reduced, _zero),
    "sum.dim_IntList": partial(_reduced, _zero),
}
