"""Importers of ScatterND and ScatterElements: what is replaced or added at places that are known,
or replaced at few that are not.

    data[1:3] = updates     ->    Concat(data[:1], updates, data[3:])

Assignments to slices, and to elements whose places are constants, are written so by exporters; so
are the sums over neighbours in a graph that does not change: each row then has the list of its own.
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
from autosched.graph.ops.reduce import ReduceFunction, ReduceOp
from autosched.graph.ops.shape import Concat, Reshape
from autosched.onnx.importer.movement import slice_of
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.lang.dtypes import BOOL, is_float, is_storage_float
from sketch.lang.reducers import highest, lowest

# Of rows and indices, which are all compared.
_MOST_PAIRS: Final = 1 << 20
_NUMBER: Final = "int32"  # of an index
# Lists are as long as the longest; beyond so many times their elements, most would be empty.
_MOST_EMPTY: Final = 4
_REDUCTIONS: Final[Mapping[str, tuple[ReduceFunction, BinaryFunction]]] = {
    "add": ("sum", "add"), "mul": ("prod", "mul"), "max": ("max", "max"), "min": ("min", "min"),
}  # fmt: skip
_NEUTRAL: Final[Mapping[str, Callable[[str], float]]] = {
    "sum": lambda _: 0, "prod": lambda _: 1, "max": lowest, "min": highest,
}  # fmt: skip


def import_scatter_points(site: Site) -> None:
    """ScatterND at constant indices, or that replaces whole rows."""
    if site.node.input[1] in site.arrays:
        _change_places(site, site.arrays[site.node.input[1]])
    elif _reduction(site) != "none":
        raise UnsupportedError(f"the reduction {_reduction(site)} at computed places")
    elif site.type(1).size == 1:
        _replace_row(site)
    elif site.type(1).shape[-1] == 1 and site.type(1).size * site.type(0).shape[0] <= _MOST_PAIRS:
        _replace_rows(site)
    else:
        raise UnsupportedError(f"indices {site.type(1)} of {site.type(0)}")


def _reduction(site: Site) -> str:
    return str(site.attributes.get("reduction", "none"))


def _change_places(site: Site, indices: NDArray[Any]) -> None:
    """Constant indices: a run of rows is joined with the others, elsewhere each row is chosen."""
    shape, depth = site.type(0).shape, indices.shape[-1]
    lead, inner = shape[:depth], shape[depth:]
    places = _places(indices.reshape(-1, depth), lead)
    data = site.step(Reshape((prod(lead), *inner)), [site.input(0)])
    new = site.step(Reshape((places.size, *inner)), [site.input(2)])
    site.emit(Reshape(shape), [_with_rows(site, data, new, places, 0)])


def import_scatter_elements(site: Site) -> None:
    """ScatterElements of whole slices at constant indices."""
    indices, shape = site.constant(1), site.type(0).shape
    assert indices is not None  # the checker has seen to it
    axis = normalize_axis(site.attributes.get("axis", 0), len(shape))
    lines = np.moveaxis(indices, axis, 0).reshape(indices.shape[axis], -1)
    covers = all(
        n == own for d, (n, own) in enumerate(zip(shape, indices.shape, strict=True)) if d != axis
    )
    if not covers or lines.size == 0 or np.any(lines != lines[:, :1]):
        raise UnsupportedError("indices that differ along a slice")
    places = _places(lines[:, :1], (shape[axis],))
    whole = _with_rows(site, site.input(0), site.input(2), places, axis)
    site.emit(Reshape(shape), [whole])


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
    """Each slice of ``data`` reduced with those of ``new`` whose place it is: they are listed.

    Raises:
        UnsupportedError: one slice has many more than the others; truth values are reduced.
    """
    shape, dtype = site.builder.types[data].shape, site.builder.types[data].dtype
    rows, (function, combined) = shape[axis], _REDUCTIONS[_reduction(site)]
    counts = np.bincount(places, minlength=rows)
    longest = int(counts.max())
    if rows * longest > _MOST_EMPTY * max(places.size, rows) or dtype == BOOL:
        raise UnsupportedError(f"{places.size} slices, {longest} of them at one place of {rows}")
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


def _replace_rows(site: Site) -> None:
    """Indices along the first dimension: each row looks for the last one that is its own.

    An index that is out of range replaces nothing.
    """
    data, indices = site.type(0), site.type(1)
    extent, *inner = data.shape
    places = np.arange(extent, dtype=indices.dtype)[:, None]
    wanted = site.step(Reshape((1, indices.size)), [site.input(1)])
    found = [
        site.step(BinaryOp("eq"), [site.add_constant("places", numbers), wanted])
        for numbers in (places, places - extent)  # negative ones count from the end
    ]
    numbers = site.add_constant("numbers", np.arange(indices.size, dtype=_NUMBER))
    none = site.scalar("none", -1, _NUMBER)
    own = site.step(Where(), [site.step(BinaryOp("or"), found), numbers, none])
    last = site.step(ReduceOp("max", (1,), False), [own])
    first = site.scalar("first", 0, _NUMBER)
    chosen = site.step(BinaryOp("ge"), [last, first])
    chosen = site.step(Reshape((extent, *(1 for _ in inner))), [chosen])
    rows = site.step(Reshape((indices.size, *inner)), [site.input(2)])
    new = site.step(Gather(0), [rows, site.step(BinaryOp("max"), [last, first])])
    site.emit(Where(), [chosen, new, site.input(0)])
