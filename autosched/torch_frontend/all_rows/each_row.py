"""Operators whose results have the rows of their arguments: they move, repeat or compute each."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Final

from autosched.torch_frontend.all_rows.call import RowCall, Rule
from autosched.torch_frontend.all_rows.rows import Length, SelectedRows, parts_of_type
from autosched.torch_frontend.all_rows.selecting import check_alignment

# Arithmetic that torch does not list as such.
_ARITHMETIC: Final = (
    "__and__.Tensor", "__or__.Tensor", "__xor__.Tensor", "floor_divide.default",
    "log_sigmoid.default", "masked_fill.Tensor",
)  # fmt: skip
_MOVED: Final = (
    "_to_copy.default", "alias.default", "contiguous.default", "detach.default",
    "full_like.default", "lift_fresh_copy.default", "ones_like.default", "permute.default",
    "squeeze.default", "squeeze.dim", "squeeze.dims", "t.default", "transpose.int",
    "unsqueeze.default", "zeros_like.default", "to.dtype",
)  # fmt: skip
_ALONG_OTHERS: Final = (
    "_log_softmax.default", "argmax.default", "argmin.default", "cumsum.default",
    "flip.default", "log_softmax.int", "max.dim", "min.dim", "narrow.default", "select.int",
    "slice.Tensor", "split.Tensor", "split_with_sizes.default", "unbind.int",
)  # fmt: skip


def of_each_element(call: RowCall) -> Any:
    """Arithmetic: what is broadcast to the rows is the same for all of them."""
    selection = call.selection
    check_alignment(call, _flat(call), call.rows[0].from_end)
    return call.of_each_row(selection)


def _flat(call: RowCall) -> list[Any]:
    """All arguments, those in lists as well."""
    values: list[Any] = []
    for value in call.given.values():
        values.extend(value if isinstance(value, list | tuple) else [value])
    return values


def _moved(call: RowCall) -> Any:
    return call.of_each_row(call.selection)


def _viewed(call: RowCall) -> Any:
    """The dimension of the rows stays one of its own, behind as many elements as before."""
    own = call.data("self")
    result = call.of_each_row(own.selection)
    before, after = prod(own.data.shape[: own.axis]), prod(result.data.shape[: result.axis])
    call.require(before == after, "rows joined with other dimensions")
    return result


def _expanded(call: RowCall) -> Any:
    """Repeated along other dimensions; or one row, as often as rows are selected."""
    value = call["self"]
    if not isinstance(value, SelectedRows):
        return filled(call)
    result = call.of_each_row(value.selection)
    call.require(result.from_end == value.from_end, "rows along several dimensions")
    return SelectedRows(result.data, result.axis, result.selection, value.repeated or value)


def filled(call: RowCall) -> Any:
    """Numbers, as many as there are selected rows."""
    lengths = list(parts_of_type(dict(call.given), Length))
    if not lengths:  # made like rows, in a shape of its own
        return call.run()
    call.require(len(lengths) == 1, "several lengths")
    return _filled(call, lengths[0])


def _filled(call: RowCall, length: Length) -> Any:
    return call.of_each_row(call.selections.of_length(length))


def _along_others(call: RowCall) -> Any:
    own = call.data("self")
    dims = call.dims("dims" if "dims" in call.given else "dim", own)
    call.require(own.axis not in dims, "an order of selected rows")
    return call.of_each_row(call.selection)


def _stacked(call: RowCall) -> Any:
    values = call["tensors"]
    same = all(isinstance(v, SelectedRows) and v.axis == call.rows[0].axis for v in values)
    call.require(same, "rows along several dimensions")
    return call.of_each_row(call.selection)


def _joined(call: RowCall) -> Any:
    """Along the rows one after the other, along another dimension side by side."""
    first = call.rows[0]
    (dim,) = call.dims("dim", first)
    if dim != first.axis:
        return _stacked(call)
    call.require(all(rows.axis == dim for rows in call.rows), "rows along several dimensions")
    parts = [
        v.selection if isinstance(v, SelectedRows) else int(v.shape[dim]) for v in call["tensors"]
    ]
    return call.finished(call.run(), call.selections.joined(parts))


def _linear(call: RowCall) -> Any:
    own = call.data("input")
    call.require(own.axis != own.data.dim() - 1, "sums over selected rows")
    for role in ("weight", "bias"):
        call.whole(role)
    return call.of_each_row(own.selection)


def _product(call: RowCall) -> Any:
    """A matrix of rows with one that is the same for all."""
    own = call.data("mat1" if "mat1" in call.given else "self")
    other = call.whole("mat2" if "mat2" in call.given else "other")
    call.require(own.axis != own.data.dim() - 1 and other.dim() == 2, "sums over selected rows")
    addend = call.given["self"] if "mat1" in call.given else None
    check_alignment(call, [addend], -2)
    return call.of_each_row(call.selection)


def _layer_norm(call: RowCall) -> Any:
    own = call.data("input")
    inner = own.data.dim() - len(call["normalized_shape"])
    call.require(own.axis < inner, "sums over selected rows")
    return call.of_each_row(own.selection)


EACH_ROW: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(_ARITHMETIC, of_each_element),
    **dict.fromkeys(_MOVED, _moved),
    **dict.fromkeys(_ALONG_OTHERS, _along_others),
    "_unsafe_view.default": _viewed,
    "addmm.default": _product,
    "cat.default": _joined,
    "expand.default": _expanded,
    "full.default": filled,
    "layer_norm.default": _layer_norm,
    "linear.default": _linear,
    "matmul.default": _product,
    "mm.default": _product,
    "native_layer_norm.default": _layer_norm,
    "new_full.default": filled,
    "new_ones.default": filled,
    "new_zeros.default": filled,
    "ones.default": filled,
    "reshape.default": _viewed,
    "stack.default": _stacked,
    "view.default": _viewed,
    "zeros.default": filled,
}
