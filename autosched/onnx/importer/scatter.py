"""Importer of ScatterND: slices that are replaced, at places that are known or at one that is not.

    data[1:3] = updates     ->    Concat(data[:1], updates, data[3:])

Assignments to slices, and to elements whose places are constants, are written so by exporters.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.elementwise import BinaryOp, Where
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.shape import Concat, Reshape
from autosched.onnx.importer.movement import slice_of
from autosched.onnx.importer.site import Site, UnsupportedError


def import_scatter_points(site: Site) -> None:
    """ScatterND that replaces what it meets, at constant indices or of one row."""
    if site.attributes.get("reduction", "none") != "none":
        raise UnsupportedError(f"the reduction {site.attributes['reduction']}")
    if site.node.input[1] in site.arrays:
        _replace_places(site, site.arrays[site.node.input[1]])
    elif site.type(1).size == 1:
        _replace_row(site)
    else:
        raise UnsupportedError(f"indices {site.type(1)}, of more than one row")


def _replace_places(site: Site, indices: NDArray[Any]) -> None:
    """Constant indices: a run of rows is joined with the others, elsewhere each row is chosen."""
    shape, depth = site.type(0).shape, indices.shape[-1]
    lead, inner = shape[:depth], shape[depth:]
    rows = prod(lead)
    places = _places(indices.reshape(-1, depth), lead)
    data = site.step(Reshape((rows, *inner)), [site.input(0)])
    new = site.step(Reshape((places.size, *inner)), [site.input(2)])
    if np.all(np.diff(places) == 1):
        first, end = int(places[0]), int(places[-1]) + 1
        around = [(0, n, 1) for n in inner]
        kept = [
            site.step(slice_of([(start, stop, 1), *around]), [data]) if start < stop else ""
            for start, stop in ((0, first), (end, rows))
        ]
        parts = [part for part in (kept[0], new, kept[1]) if part]
        whole = site.step(Concat(0), parts) if len(parts) > 1 else new
    else:
        source = np.full(rows, -1, np.int64)
        source[places] = np.arange(places.size)
        ones = (1,) * len(inner)
        chosen = site.add_constant("chosen", (source >= 0).reshape(rows, *ones))
        order = site.add_constant("order", np.maximum(source, 0))
        whole = site.step(Where(), [chosen, site.step(Gather(0), [new, order]), data])
    site.emit(Reshape(shape), [whole])


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
