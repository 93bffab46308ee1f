"""Importers of operators whose indices are data, or could be."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.base import Shape, normalize_axis
from autosched.graph.ops.elementwise import CastOp
from autosched.graph.ops.gather import Gather, GatherElements, GatherPoints, OneHot, ReverseSequence
from autosched.graph.ops.shape import Reshape
from autosched.onnx.importer.movement import slice_of
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.lang.dtypes import is_integer


def import_gather(site: Site) -> None:
    """Gather; constant indices with a constant distance are a slice."""
    shape = site.type(0).shape
    axis = normalize_axis(site.attributes.get("axis", 0), len(shape))
    if site.node.input[1] in site.arrays:
        indices = site.constant(1)
        assert indices is not None
        _emit_take(site, site.input(0), shape, indices, axis)
    else:
        site.emit(Gather(axis), site.inputs())


def import_compress(site: Site) -> None:
    """Compress with a constant condition: the places where it holds."""
    condition = site.constant(1)
    assert condition is not None  # the checker has seen to it
    axis, data, shape = site.attributes.get("axis"), site.input(0), site.type(0).shape
    if axis is None:
        axis, data, shape = 0, site.step(Reshape((prod(shape),)), [data]), (prod(shape),)
    _emit_take(site, data, shape, np.flatnonzero(condition), normalize_axis(axis, len(shape)))


def _emit_take(site: Site, data: str, shape: Shape, indices: NDArray[Any], axis: int) -> None:
    """``take`` of constant indices along ``axis``."""
    extent = shape[axis]
    if indices.size == 0 or not (-extent <= indices.min() and indices.max() < extent):
        raise UnsupportedError(f"indices {indices} into {extent} elements")
    places = np.where(indices < 0, indices + extent, indices).reshape(-1)
    step = int(places[1] - places[0]) if places.size > 1 else 1
    if step == 0 or np.any(np.diff(places) != step):
        name = site.add_constant("indices", places.reshape(indices.shape))
        site.emit(Gather(axis), [data, name])
        return
    bounds = [(0, n, 1) for n in shape]
    bounds[axis] = (int(places[0]), int(places[-1]) + (1 if step > 0 else -1), step)
    picked = site.step(slice_of(bounds), [data])
    site.emit(Reshape((*shape[:axis], *indices.shape, *shape[axis + 1 :])), [picked])


def import_gather_elements(site: Site) -> None:
    """GatherElements."""
    axis = normalize_axis(site.attributes.get("axis", 0), site.rank(0))
    site.emit(GatherElements(axis), site.inputs())


def import_gather_points(site: Site) -> None:
    """GatherND."""
    site.emit(GatherPoints(site.attributes.get("batch_dims", 0)), site.inputs())


def import_one_hot(site: Site) -> None:
    """OneHot with a constant depth; indices that are floats count as integers."""
    depth = site.constant(1)
    assert depth is not None  # the checker has seen to it
    axis = normalize_axis(site.attributes.get("axis", -1), site.rank(0) + 1)
    indices = site.input(0)
    if not is_integer(site.type(0).dtype) or site.type(0).dtype not in ("int32", "int64"):
        indices = site.step(CastOp("int64"), [indices])
    site.emit(OneHot(int(depth.item()), axis), [indices, site.input(2)])


def import_reverse_sequence(site: Site) -> None:
    """ReverseSequence."""
    batch, time = site.attributes.get("batch_axis", 1), site.attributes.get("time_axis", 0)
    site.emit(ReverseSequence(batch, time), site.inputs())


IMPORT_GATHER: Final[dict[str, Callable[[Site], None]]] = {
    "Compress": import_compress,
    "Gather": import_gather,
    "GatherElements": import_gather_elements,
    "GatherND": import_gather_points,
    "OneHot": import_one_hot,
    "ReverseSequence": import_reverse_sequence,
}
