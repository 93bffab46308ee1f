"""Converters of operators whose indices are data, or whose results are.

Negative indices count from the end, as torch has it; those that torch refuses are kept inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from autosched.graph.ir import Value
from autosched.graph.ops.base import Shape
from autosched.graph.ops.elementwise import BinaryOp, CastOp
from autosched.graph.ops.gather import Gather, GatherElements, GatherPoints
from autosched.graph.ops.movement import Expand
from autosched.graph.ops.reduce import ReduceFunction, ReduceOp
from autosched.graph.ops.shape import Concat, Reshape
from autosched.graph.top_elements import has_top_elements, top_elements
from autosched.torch_frontend.aten.call import AtenCall, Converter, axis_of

_INDEX: Final = "int64"
_INDICES: Final = (_INDEX, "int32")  # bytes choose by truth values, as an older torch had it
_BAGS: Final[tuple[ReduceFunction, ...]] = ("sum", "mean", "max")  # by torch's numbers


def _embedding(call: AtenCall) -> str:
    return call.add(Gather(0), *call.values("weight", "indices"))


def _embedding_bag(call: AtenCall) -> tuple[str | None, ...]:
    """Rows of bags that have equally many, which is known of a matrix of indices."""
    offsets, count = call["offsets"], call.shape("indices")[0]
    call.require(not isinstance(offsets, Value), "bags whose sizes are data")
    call.require(call["padding_idx"] < 0, "rows that count for nothing")
    starts = offsets.tolist() if call["include_last_offset"] else [*offsets.tolist(), count]
    bags, size = len(starts) - 1, count // max(len(starts) - 1, 1)
    equal = starts == [bag * size for bag in range(bags)] + [count] and size > 0
    call.require(equal and bags * size == count, "bags of several sizes")
    rows = call.add(Gather(0), *call.values("weight", "indices"))
    width = call.shape("weight")[1]
    rows = call.add(Reshape((bags, size, width)), rows)
    for weights in call.values("per_sample_weights"):
        rows = call.add(BinaryOp("mul"), rows, call.add(Reshape((bags, size, 1)), weights))
    return call.add(ReduceOp(_BAGS[call["mode"]], (1,), False), rows), None, None, None


def _index_select(call: AtenCall) -> str:
    call.require(len(call.shape("index")) == 1, "an index without a dimension")
    return call.add(Gather(axis_of(call)), *call.values("self", "index"))


def _index(call: AtenCall) -> str:
    """Picked along one dimension, or along several: in all combinations, or in pairs."""
    given = [(axis, index) for axis, index in enumerate(call["indices"]) if index is not None]
    axes, names = [axis for axis, _ in given], [call.named(index) for _, index in given]
    types = [call.type_of(name) for name in names]
    call.require(all(kind.dtype in _INDICES for kind in types), "a choice by truth values")
    if len(names) == 1:
        return call.add(Gather(axes[0]), call.value("self"), names[0])
    if _are_adjacent(axes) and _are_crossed([kind.shape for kind in types]):
        return _combined(call, axes, names)
    return _in_pairs(call, axes, names)


def _are_adjacent(axes: Sequence[int]) -> bool:
    return axes[-1] - axes[0] == len(axes) - 1


def _are_crossed(shapes: Sequence[Shape]) -> bool:
    """Whether each index has a dimension of its own, in their order: [a, 1] and [b]."""
    rank = len(shapes)
    if max(map(len, shapes)) != rank:
        return False
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return all(
        len(own) == rank and all(n == 1 for other, n in enumerate(own) if other != place)
        for place, own in enumerate(padded)
    )


def _combined(call: AtenCall, axes: Sequence[int], names: Sequence[str]) -> str:
    """One dimension after the other."""
    data = call.value("self")
    for axis, name in zip(axes, names, strict=True):
        flat = call.add(Reshape((call.type_of(name).size,)), name)
        data = call.add(Gather(axis), data, flat)
    return data


def _in_pairs(call: AtenCall, axes: Sequence[int], names: Sequence[str]) -> str:
    """Slices at index tuples.

    The dimensions of the indices come where the chosen ones were, first if those are apart.
    """
    shape = np.broadcast_shapes(*(call.type_of(name).shape for name in names))
    columns = [_column(call, name, shape) for name in names]
    points = call.add(Concat(len(shape)), *columns)
    rest = [axis for axis in range(len(call.shape("self"))) if axis not in axes]
    data = call.turned(call.value("self"), [*axes, *rest])
    found = call.add(GatherPoints(), data, points)
    before = axes[0] if _are_adjacent(axes) else 0
    own, others = range(len(shape)), range(len(shape), len(shape) + len(rest))
    return call.turned(found, [*others[:before], *own, *others[before:]])


def _column(call: AtenCall, name: str, shape: Shape) -> str:
    """An index as the last dimension of all points: ``[*shape, 1]``."""
    kind = call.type_of(name)
    if kind.dtype != _INDEX:
        name = call.add(CastOp(_INDEX), name)
    column = call.add(Reshape((*kind.shape, 1)), name)
    return column if kind.shape == shape else call.add(Expand((*shape, 1)), column)


def _gather(call: AtenCall) -> str:
    call.require(bool(call.shape("self")), "gathering from a number")
    return call.add(GatherElements(axis_of(call)), *call.values("self", "index"))


def _top(call: AtenCall) -> tuple[str, str]:
    return _ordered(call, call["k"], call["largest"])


def _sort(call: AtenCall) -> tuple[str, str]:
    extent = call.shape("self")[axis_of(call)] if call.shape("self") else 0
    return _ordered(call, extent, call["descending"])


def _ordered(call: AtenCall, count: int, descending: bool) -> tuple[str, str]:
    """The first elements along a dimension and their positions: of short rows, or few of them."""
    call.require(bool(call.shape("self")) and count > 0, "an order of nothing")
    kind = call.type_of(call.value("self"))
    call.require(has_top_elements(kind, axis_of(call), count), "an order of many elements")
    return top_elements(call, call.value("self"), count, axis_of(call), descending)


INDEXING: Final[Mapping[str, Converter]] = {
    "_embedding_bag.default": _embedding_bag,
    "_embedding_bag_forward_only.default": _embedding_bag,
    "_unsafe_index.Tensor": _index,
    "embedding.default": _embedding,
    "gather.default": _gather,
    "index.Tensor": _index,
    "index_select.default": _index_select,
    "sort.default": _sort,
    "sort.stable": _sort,
    "topk.default": _top,
}
