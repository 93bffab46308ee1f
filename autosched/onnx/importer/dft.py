"""Importer of DFT: products of the rows along an axis."""

from __future__ import annotations

from typing import Final

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.elementwise import Identity
from autosched.graph.spectrum import Transform, transform_axis
from autosched.onnx.importer.site import Site, UnsupportedError
from autosched.onnx.importer.site_parts import SiteParts

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
    scale = 1 / length if inverse else 1.0
    transform = Transform(read, length, results, parts, inverse, scale=scale)
    try:
        found = transform_axis(SiteParts(site), site.input(0), axis, transform)
    except GraphError as error:
        raise UnsupportedError(str(error)) from error
    site.emit(Identity(), [found])


def _axis(site: Site, rank: int) -> int:
    """Of opset 17 an attribute, of opset 20 an input."""
    if site.has(_AXIS_INPUT):
        axis = site.constant(_AXIS_INPUT)
        assert axis is not None  # it is given
        return normalize_axis(int(axis.item()), rank)
    return normalize_axis(site.attributes.get("axis", 1 if site.opset < 20 else -2), rank)
