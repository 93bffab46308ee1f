"""Converters of views, and of writing into them: which elements they read is known.

A view is an array of positions in the flattened tensor; what is written is read from the end of
both tensors joined.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.torch_frontend.aten.call import AtenCall, Converter, axis_of
from autosched.torch_frontend.aten.movement import part
from autosched.torch_frontend.strided import places_of_view

_Places = NDArray[np.int64]


def _picked(call: AtenCall, flat: str, places: _Places) -> str:
    """Elements of a value of one dimension, in the shape of their places."""
    first, count = int(places.flat[0]), places.size
    if (places.reshape(-1) == np.arange(first, first + count)).all():
        found = call.add(Slice((first,), (first + count,), (1,)), flat)
    else:
        found = call.add(Gather(0), flat, call.array(places.reshape(-1)))
    return call.add(Reshape(tuple(places.shape)), found)


def _flat(call: AtenCall, value: str) -> str:
    return call.add(Reshape((call.type_of(value).size,)), value)


def _as_strided(call: AtenCall) -> str:
    """Elements by where they are in memory, which ``self`` lies in as it did when it was traced."""
    fake = call.fakes["self"]
    offset = call["storage_offset"]
    offset = fake.storage_offset() if offset is None else offset
    places = places_of_view(fake, call["size"], call["stride"], offset)
    call.require(places.size > 0, "no elements")
    call.require(places.min() >= 0, "elements that are not its own")
    return _picked(call, _flat(call, call.value("self")), places)


def _diagonal_places(call: AtenCall) -> tuple[_Places, _Places]:
    """Places of all elements, and those of a diagonal, a view of the first."""
    places = np.arange(prod(call.shape("self"))).reshape(call.shape("self"))
    how = call["offset"], axis_of(call, "dim1"), axis_of(call, "dim2")
    return places, places.diagonal(*how)


def _diagonal(call: AtenCall) -> str:
    return _picked(call, _flat(call, call.value("self")), _diagonal_places(call)[1])


def _diagonal_scatter(call: AtenCall) -> str:
    places, diagonal = _diagonal_places(call)
    written = places.reshape(-1).copy()
    written[diagonal.reshape(-1)] = places.size + np.arange(diagonal.size)
    flat = (_flat(call, value) for value in (call.value("self"), call.operand("src", call.dtype)))
    return _picked(call, call.add(Concat(0), *flat), written.reshape(places.shape))


def _unfold(call: AtenCall) -> str:
    """Windows along one dimension, whose elements become the last one."""
    rank, size, step = len(call.shape("self")), call["size"], call["step"]
    call.require(rank > 0, "windows of a number")
    axis = normalize_axis(call["dimension"], rank)
    starts = np.arange(0, call.shape("self")[axis] - size + 1, step)
    windows = call.add(
        Gather(axis), call.value("self"), call.array(starts[:, None] + np.arange(size))
    )
    order = (*(n for n in range(rank + 1) if n != axis + 1), axis + 1)
    return call.add(Transpose(order), windows)


def _slice_scatter(call: AtenCall) -> str:
    """Parts before and behind what is written, or, where there are gaps, picked elements."""
    axis, extent = axis_of(call), call.shape("self")[axis_of(call)]
    start, stop, step = slice(call["start"], call["end"], call["step"]).indices(extent)
    call.require(start < stop, "nothing that is written")
    source = call.operand("src", call.dtype)
    if step == 1:
        before = [part(call, axis, 0, start)] if start else []
        behind = [part(call, axis, stop, extent)] if stop < extent else []
        return call.add(Concat(axis), *before, source, *behind)
    places = np.arange(extent)
    places[start:stop:step] = extent + np.arange(len(range(start, stop, step)))
    joined = call.add(Concat(axis), call.value("self"), source)
    return call.add(Gather(axis), joined, call.array(places))


def _narrow_copy(call: AtenCall) -> str:
    axis = axis_of(call)
    start = normalize_axis(call["start"], call.shape("self")[axis])
    return part(call, axis, start, start + call["length"])


VIEWS: Final[Mapping[str, Converter]] = {
    "as_strided.default": _as_strided,
    "diagonal.default": _diagonal,
    "diagonal_scatter.default": _diagonal_scatter,
    "narrow_copy.default": _narrow_copy,
    "slice_scatter.default": _slice_scatter,
    "unfold.default": _unfold,
}
