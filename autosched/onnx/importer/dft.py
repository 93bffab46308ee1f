"""Importer of DFT: products of the rows along an axis."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Reshape, Transpose
from autosched.onnx.importer.site import Site, UnsupportedError
from autosched.onnx.importer.spectrum import Transform, transform_rows

_AXIS_INPUT: Final = 2  # since opset 20


def import_dft(site: Site) -> None:
    """DFT of real or complex numbers along one axis, of a length for which matrices are small."""
    shape, dtype = site.type(0).shape, site.type(0).dtype
    rank, parts = len(shape), shape[-1]
    axis = _axis(site, rank)
    inverse, onesided = (bool(site.attributes.get(name, 0)) for name in ("inverse", "onesided"))
    given = site.constant(1)
    length = shape[axis] if given is None else int(given.item())
    if axis == rank - 1 or (inverse and onesided) or dtype not in ("float32", "float64"):
        raise UnsupportedError(f"{dtype} {shape} along dimension {axis}")
    read = min(length, shape[axis])
    results = length // 2 + 1 if onesided else length
    data = site.input(0)
    if read < shape[axis]:
        stop = tuple(read if d == axis else n for d, n in enumerate(shape))
        data = site.step(Slice((0,) * rank, stop, (1,) * rank), [data])
    order = [d for d in range(rank) if d not in (axis, rank - 1)]
    lead = tuple(shape[d] for d in order)
    moved = site.step(Transpose((*order, axis, rank - 1)), [data])
    rows = site.step(Reshape((prod(lead), read, parts)), [moved])
    product = transform_rows(site, rows, Transform(read, length, results, parts, inverse))
    found = site.step(Reshape((*lead, results, 2)), [product])
    back = np.argsort((*order, axis, rank - 1))
    site.emit(Transpose(tuple(int(d) for d in back)), [found])


def _axis(site: Site, rank: int) -> int:
    """Of opset 17 an attribute, of opset 20 an input."""
    if site.has(_AXIS_INPUT):
        axis = site.constant(_AXIS_INPUT)
        assert axis is not None  # it is given
        return normalize_axis(int(axis.item()), rank)
    return normalize_axis(site.attributes.get("axis", 1 if site.opset < 20 else -2), rank)
