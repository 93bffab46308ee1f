"""Importers of ScatterND and ScatterElements: what is replaced or added at places.

    data[1:3] = updates     ->    Concat(data[:1], updates, data[3:])

Assignments to slices, and to elements whose places are constants, are written so by exporters; so
are the sums over neighbours in a graph that does not change: each row then has the list of its own.
Where data say the places, it is a scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.elementwise import BinaryFunction, BinaryOp, Where
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.scatter import SendAlong
from autosched.graph.ops.shape import Concat, Reshape
from autosched.onnx.importer.movement import slice_of
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.lang.dtypes import BOOL, is_float, is_storage_float
from sketch.lang.reducers import highest, lowest
from sketch.operators.scatter import Reduction, ScatterFunction

_NUMBER: Final = "int32"  # of an index
# Lists are as long as the longest; beyond so many times their elements, most would be empty.
_MOST_EMPTY: Final = 4
_REDUCTIONS: Final[Mapping[str, tuple[Reduction, BinaryFunction]]] = {
    "add": ("sum", "add"), "mul": ("prod", "mul"), "max": ("max", "max"), "min": ("min", "min"),
}  # fmt: skip
_FUNCTIONS: Final[Mapping[str, ScatterFunction]] = {
    "none": "last", **{name: found for name, (found, _) in _REDUCTIONS.items()},
}  # fmt: skip
_NEUTRAL: Final[Mapping[str, Callable[[str], float]]] = {
    "sum": lambda _: 0, "prod": lambda _: 1, "max": lowest, "min": highest,
}  # fmt: skip


def import_scatter_points(site: Site) -> None:
    """ScatterND: rows, or elements, that index tuples say."""
    shape, depth = site.type(0).shape, site.type(1).shape[-1]
    if depth == 0:
        raise UnsupportedError("empty index tuples")
    if (known := site.arrays.get(site.node.input[1])) is not None:
        places = _places(known.reshape(-1, depth), shape[:depth])
        if _is_listed(site, places, prod(shape[:depth])):
            _change_places(site, places, depth)
            return
    if site.type(1).size == 1 and _reduction(site) == "none":
        _replace_row(site)
    else:
        _send_rows(site, depth)


def _reduction(site: Site) -> str:
    return str(site.attributes.get("reduction", "none"))


def _is_listed(site: Site, places: NDArray[np.int64], rows: int) -> bool:
    """Whether known places become lists of what each row gets: none is much longer than others."""
    if _reduction(site) == "none":
        return True
    longest = int(np.bincount(places).max())
    return rows * longest <= _MOST_EMPTY * max(places.size, rows) and site.type(0).dtype != BOOL


def _change_places(site: Site, places: NDArray[np.int64], depth: int) -> None:
    """Constant indices: a run of rows is joined with the others, elsewhere each row is chosen."""
    shape = site.type(0).shape
    lead, inner = shape[:depth], shape[depth:]
    data = site.step(Reshape((prod(lead), *inner)), [site.input(0)])
    new = site.step(Reshape((places.size, *inner)), [site.input(2)])
    site.emit(Reshape(shape), [_with_rows(site, data, new, places, 0)])


def import_scatter_elements(site: Site) -> None:
    """ScatterElements: whole slices at constant indices, or elements at any."""
    shape, given = site.type(0).shape, site.type(1).shape
    axis = normalize_axis(site.attributes.get("axis", 0), len(shape))
    rest = [d for d in range(len(shape)) if d != axis]
    if site.type(1).size == 0 or any(given[d] != shape[d] for d in rest):
        raise UnsupportedError(f"indices {site.type(1)} that leave out parts of {site.type(0)}")
    if (known := site.arrays.get(site.node.input[1])) is not None:
        lines = np.moveaxis(known, axis, 0).reshape(given[axis], -1)
        places = _places(lines.reshape(-1, 1), (shape[axis],)).reshape(lines.shape)[:, 0]
        if np.all(lines == lines[:, :1]) and _is_listed(site, places, shape[axis]):
            whole = _with_rows(site, site.input(0), site.input(2), places, axis)
            site.emit(Reshape(shape), [whole])
            return
    function = _FUNCTIONS[_reduction(site)]
    site.emit(SendAlong(axis, function), [site.input(n) for n in range(3)])


def _with_rows(site: Site, data: str, new: str, places: NDArray[np.int64], axis: int) -> str:
    """``data`` with slices along ``axis`` replaced by ``new`` at ``places``, or reduced with it."""
    if _reduction(site) != "none":
        return _with_reduced(site, data, new, places, axis)
    shape = site.builder.types[data].shape
    rows = shape[axis]
    if np.all(np.diff(places) == 1):
        bounds = [(0, n, 1) for n in shape]
        parts = [new]
        if places[0] > 0:
            bounds[axis] = (0, int(places[0]), 1)
            parts.insert(0, site.step(slice_of(bounds), [data]))
        if places[-1] < rows - 1:
            bounds[axis] = (int(places[-1]) + 1, rows, 1)
            parts.append(site.step(slice_of(bounds), [data]))
        return site.step(Concat(axis), parts) if len(parts) > 1 else new
    source = np.full(rows, -1, np.int64)
    source[places] = np.arange(places.size)
    ones = [1] * len(shape)
    ones[axis] = rows
    chosen = site.add_constant("chosen", (source >= 0).reshape(ones))
    order = site.add_constant("order", np.maximum(source, 0))
    return site.step(Where(), [chosen, site.step(Gather(axis), [new, order]), data])


def _with_reduced(site: Site, data: str, new: str, places: NDArray[np.int64], axis: int) -> str:
    """Each slice of ``data`` reduced with those of ``new`` whose place it is: they are listed."""
    shape, dtype = site.builder.types[data].shape, site.builder.types[data].dtype
    rows, (function, combined) = shape[axis], _REDUCTIONS[_reduction(site)]
    counts = np.bincount(places, minlength=rows)
    longest = int(counts.max())
    order = np.argsort(places, kind="stable")
    rank = np.arange(places.size) - np.repeat(np.cumsum(counts) - counts, counts)
    lists = np.zeros((rows, longest), _NUMBER)
    lists[places[order], rank] = order
    listed = site.step(Gather(axis), [new, site.add_constant("lists", lists)])
    held = np.arange(longest) < counts[:, None]
    ones = (1,) * (len(shape) - axis - 1)
    given = site.add_constant("given", held.reshape(rows, longest, *ones))
    nothing = site.scalar("nothing", _NEUTRAL[function](dtype), dtype)
    chosen = site.step(Where(), [given, listed, nothing])
    # What is given may sum up to more than a narrow type holds, and data make it small again.
    wide = "float32" if is_storage_float(dtype) else dtype
    found = site.step(ReduceOp(function, (axis + 1,), False), [site.cast(chosen, wide)])
    reduced = site.step(BinaryOp(combined), [site.cast(data, wide), found])
    reduced = site.cast(reduced, dtype)
    if function != "sum" or not is_float(dtype) or counts.all():
        return reduced
    # Nothing is added to the other slices, which would make 0 of -0.
    met = site.add_constant("met", (counts > 0).reshape(rows, *ones))
    return site.step(Where(), [met, reduced, data])


def _places(indices: NDArray[Any], lead: tuple[int, ...]) -> NDArray[np.int64]:
    """Row numbers of index tuples; negative indices count from the end."""
    extents = np.asarray(lead, np.int64)
    found = np.where(indices < 0, indices + extents, indices).astype(np.int64)
    if found.size == 0 or np.any(found < 0) or np.any(found >= extents):
        raise UnsupportedError(f"indices beyond dimensions {lead}, or none")
    return np.ravel_multi_index(tuple(found.T), lead).astype(np.int64)


def _replace_row(site: Site) -> None:
    """One index along the first dimension: one row is replaced, the others stay.

    A cache of fixed length is written so, a token at a time.  An index that is out of range
    replaces nothing.
    """
    data, indices = site.type(0), site.type(1)
    extent, ones = data.shape[0], (1,) * (len(data.shape) - 1)
    places = np.arange(extent, dtype=indices.dtype).reshape(extent, *ones)
    index = site.step(Reshape((1, *ones)), [site.input(1)])
    found = [
        site.step(BinaryOp("eq"), [site.add_constant("places", numbers), index])
        for numbers in (places, places - extent)  # negative ones count from the end
    ]
    row = site.step(Reshape((1, *data.shape[1:])), [site.input(2)])
    site.emit(Where(), [site.step(BinaryOp("or"), found), row, site.input(0)])


def _send_rows(site: Site, depth: int) -> None:
    """Rows are sent to computed places; a tuple is one, of all that its dimensions have."""
    shape, rows = site.type(0).shape, prod(site.type(1).shape[:-1])
    lead, inner = shape[:depth], prod(shape[depth:])
    tuples = site.step(Reshape((rows, depth)), [site.input(1)])
    places = tuples if depth == 1 else _joined_places(site, tuples, lead)
    data = site.step(Reshape((prod(lead), inner)), [site.input(0)])
    updates = site.step(Reshape((rows, inner)), [site.input(2)])
    sent = site.step(SendAlong(0, _FUNCTIONS[_reduction(site)]), [data, places, updates])
    site.emit(Reshape(shape), [sent])


def _joined_places(site: Site, tuples: str, lead: tuple[int, ...]) -> str:
    """Index tuples [n, depth] as places [n, 1] among all of their dimensions; where one is out of
    range, the first place that is.
    """
    extents = np.asarray(lead, np.int64)
    strides = np.asarray([prod(lead[d + 1 :]) for d in range(len(lead))], np.int64)
    given, zero = site.cast(tuples, "int64"), site.scalar("zero", 0, "int64")
    extent = site.add_constant("extents", extents)
    negative = site.step(BinaryOp("lt"), [given, zero])
    own = site.step(Where(), [negative, site.step(BinaryOp("add"), [given, extent]), given])
    before = site.step(BinaryOp("lt"), [own, zero])
    beyond = site.step(BinaryOp("ge"), [own, extent])
    outside = site.step(BinaryOp("or"), [before, beyond])
    outside = site.step(ReduceOp("max", (1,), True), [outside])
    parts = site.step(BinaryOp("mul"), [own, site.add_constant("strides", strides)])
    joined = site.step(ReduceOp("sum", (1,), True), [parts])
    return site.step(Where(), [outside, site.scalar("none", prod(lead), "int64"), joined])
