"""Converters of operators that put elements where indices say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from autosched.graph.ops.base import Shape
from autosched.graph.ops.elementwise import BinaryOp, CastOp, Where
from autosched.graph.ops.movement import Expand
from autosched.graph.ops.scatter import SendAlong
from autosched.graph.ops.shape import Reshape
from autosched.torch_frontend.aten.call import AtenCall, Converter, axis_of
from sketch.lang.dtypes import BOOL, INDEX_DTYPES
from sketch.lang.reducers import highest, lowest
from sketch.operators.scatter import Reduction, ScatterFunction

_INDEX: Final = "int64"
_REDUCTIONS: Final[Mapping[str, Reduction]] = {
    "sum": "sum", "prod": "prod", "amax": "max", "amin": "min",
}  # fmt: skip
_IDENTITIES: Final[Mapping[Reduction, Callable[[str], float]]] = {
    "sum": lambda _: 0, "prod": lambda _: 1, "max": lowest, "min": highest,
}  # fmt: skip


def _scatter(call: AtenCall) -> str:
    return _send(call, call.value("src"), "last")


def _scatter_number(call: AtenCall) -> str:
    number = np.full(call.shape("index"), call["value"]).astype(call.dtype)
    return _send(call, call.array(number), "last")


def _scatter_add(call: AtenCall) -> str:
    return _send(call, call.value("src"), "sum")


def _scatter_reduce(call: AtenCall) -> str:
    """Without the data where updates are: there the identity is sent first."""
    call.require(call["reduce"] in _REDUCTIONS, "means")
    function, data = _REDUCTIONS[call["reduce"]], call.value("self")
    if not call["include_self"]:
        nothing = np.full(call.shape("index"), _IDENTITIES[function](call.dtype))
        data = _send(call, call.array(nothing.astype(call.dtype)), "last")
    return _send(call, call.value("src"), function, data)


def _send(call: AtenCall, updates: str, function: ScatterFunction, into: str | None = None) -> str:
    """``into``: the data, if they are not those of the call."""
    data, index = call.shape("self"), call.shape("index")
    call.require(bool(data) and prod(index) > 0, "no elements, or a number")
    axis = axis_of(call)
    pairs = enumerate(zip(data, index, strict=True))
    call.require(all(own == n for d, (own, n) in pairs if d != axis), "a part of the data")
    call.require(call.type_of(updates).shape == index, "more updates than places")
    call.require(call.dtype != BOOL or function == "last", "sums of truth values")
    receiver = call.value("self") if into is None else into
    return call.add(SendAlong(axis, function), receiver, call.value("index"), updates)


def _index_put(call: AtenCall) -> str:
    """Slices at indices along some dimensions; or a number where a mask holds."""
    given = [(axis, index) for axis, index in enumerate(call["indices"]) if index is not None]
    axes, names = [axis for axis, _ in given], [call.named(index) for _, index in given]
    types = [call.type_of(name) for name in names]
    if [kind.dtype for kind in types] == [BOOL]:
        return _masked(call, axes[0], names[0])
    call.require(all(kind.dtype in INDEX_DTYPES for kind in types), "bytes as a mask")
    function: ScatterFunction = "sum" if call["accumulate"] else "last"
    call.require(call.dtype != BOOL or function == "last", "sums of truth values")
    if len(names) == 1:
        return _along_one(call, axes[0], names[0], function)
    return _in_pairs(call, axes, names, function)


def _along_one(call: AtenCall, axis: int, index: str, function: ScatterFunction) -> str:
    """Slices at indices along one dimension."""
    data, shape = call.shape("self"), call.type_of(index).shape
    count, ones = prod(shape), (1,) * (len(data) - axis - 1)
    whole = (*data[:axis], *shape, *data[axis + 1 :])
    updates = _expanded(call, call.operand("values", call.dtype), whole)
    updates = call.add(Reshape((*data[:axis], count, *data[axis + 1 :])), updates)
    if count == 1 and function == "last":
        return _one_slice(call, axis, call.add(Reshape((1, *ones)), index), updates)
    places = call.add(Reshape((*(1,) * axis, count, *ones)), index)
    return call.add(SendAlong(axis, function), call.value("self"), places, updates)


def _one_slice(call: AtenCall, axis: int, index: str, update: str) -> str:
    """A cache gets its next row: what reads the result can choose between both."""
    data, dtype = call.shape("self"), call.type_of(index).dtype
    extent, ones = data[axis], (1,) * (len(data) - axis - 1)
    places = np.arange(extent, dtype=dtype).reshape(extent, *ones)
    found = [
        call.add(BinaryOp("eq"), call.array(numbers), index)
        for numbers in (places, places - extent)  # negative ones count from the end
    ]
    chosen = call.add(BinaryOp("or"), *found)
    return call.add(Where(), chosen, update, call.value("self"))


def _in_pairs(
    call: AtenCall, axes: Sequence[int], names: Sequence[str], function: ScatterFunction
) -> str:
    """Slices at index tuples.

    The dimensions of the indices are where the chosen ones are, first if those are apart.
    """
    shape: Shape = np.broadcast_shapes(*(call.type_of(name).shape for name in names))
    data = call.shape("self")
    rest = [axis for axis in range(len(data)) if axis not in axes]
    lead, inner = [data[axis] for axis in axes], [data[axis] for axis in rest]
    before = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    whole = (*inner[:before], *shape, *inner[before:])
    order = [*range(before, before + len(shape)), *range(before)]
    order += range(before + len(shape), len(whole))
    updates = call.turned(_expanded(call, call.operand("values", call.dtype), whole), order)
    updates = call.add(Reshape((prod(shape), *inner)), updates)
    turned = call.turned(call.value("self"), [*axes, *rest])
    flat = call.add(Reshape((prod(lead), *inner)), turned)
    places = _places(call, names, lead, shape)
    places = call.add(Reshape((prod(shape), *(1,) * len(inner))), places)
    sent = call.add(SendAlong(0, function), flat, places, updates)
    back = call.add(Reshape((*lead, *inner)), sent)
    return call.turned(back, [int(d) for d in np.argsort([*axes, *rest])])


def _masked(call: AtenCall, axis: int, mask: str) -> str:
    """What does not depend on how many elements are chosen, along the dimensions of the mask."""
    values, kind, data = call.operand("values", call.dtype), call.type_of(mask), call.value("self")
    rest = len(call.shape("self")) - axis - len(kind.shape)
    own = call.type_of(values).shape
    own = (1,) * (axis + 1 + rest - len(own)) + own
    call.require(own[axis] == 1, "a choice by truth values")
    call.require(call.dtype != BOOL or not call["accumulate"], "sums of truth values")
    wide = call.add(Reshape((*kind.shape, *(1,) * rest)), mask)
    whole = (*own[:axis], *(1,) * len(kind.shape), *own[axis + 1 :])
    written = call.add(Reshape(whole), values)
    if call["accumulate"]:
        written = call.add(BinaryOp("add"), data, written)
    return call.add(Where(), wide, written, data)


def _places(call: AtenCall, names: Sequence[str], lead: Sequence[int], shape: Shape) -> str:
    """Index tuples as places among all elements of their dimensions."""
    total = ""
    for number, (name, extent) in enumerate(zip(names, lead, strict=True)):
        own = name
        if call.type_of(name).dtype != _INDEX:
            own = call.add(CastOp(_INDEX), name)
        negative = call.add(BinaryOp("lt"), own, call.number(0, _INDEX))
        counted = call.add(BinaryOp("add"), own, call.number(extent, _INDEX))
        own = call.add(Where(), negative, counted, own)
        own = call.add(BinaryOp("mul"), own, call.number(prod(lead[number + 1 :]), _INDEX))
        total = call.add(BinaryOp("add"), total, own) if total else own
    return _expanded(call, total, shape)


def _expanded(call: AtenCall, value: str, shape: Shape) -> str:
    same = call.type_of(value).shape == shape
    return value if same else call.add(Expand(shape), value)


SCATTERING: Final[Mapping[str, Converter]] = {
    "_unsafe_index_put.default": _index_put,
    "index_put.default": _index_put,
    "scatter.src": _scatter,
    "scatter.value": _scatter_number,
    "scatter_add.default": _scatter_add,
    "scatter_reduce.two": _scatter_reduce,
}
