"""Importers of Resize and Upsample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import isclose
from typing import Final

import numpy as np

from autosched.graph.ops.base import Shape, normalize_axis
from autosched.graph.ops.elementwise import BinaryOp, Identity
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.resample import Resample
from autosched.graph.resize_tables import Interpolation, Resizing, WeightTable, table
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.lang.dtypes import is_float

_COORDINATE_MODES_FROM: Final = 11  # Resize of opset 10 has the inputs and coordinates of Upsample
_POLICIES: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    "not_larger": min,
    "not_smaller": max,
}


@dataclass(frozen=True, slots=True)
class _Request:
    """Extents and scales of all dimensions, and the axes that are resized."""

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    scales: tuple[float, ...]


def _import_upsample(site: Site) -> None:
    """Upsample, and Resize of opset 10: asymmetric coordinates, rounded down; rounded up where an
    axis becomes smaller, as onnx's tests of that version and onnxruntime have it.
    """
    scales = site.attributes.get("scales")
    if scales is None:
        array = site.constant(1)
        scales = [] if array is None else array.tolist()
    mode = str(site.attributes.get("mode", "nearest"))
    request = _scaled(site.type(0).shape, tuple(range(site.rank(0))), scales)
    how = Interpolation(mode.replace("bilinear", "linear"), "asymmetric", "floor")
    _emit(site, request, how, [(0.0, 1.0)] * site.rank(0))


def _import_resize(site: Site) -> None:
    """Resize, separably: one dimension after the other."""
    if site.opset < _COORDINATE_MODES_FROM:
        _import_upsample(site)
        return
    attributes = site.attributes
    how = Interpolation(
        str(attributes.get("mode", "nearest")),
        str(attributes.get("coordinate_transformation_mode", "half_pixel")),
        str(attributes.get("nearest_mode", "round_prefer_floor")),
        float(attributes.get("cubic_coeff_a", -0.75)),
        bool(attributes.get("antialias", 0)),
        bool(attributes.get("exclude_outside", 0)),
    )
    request = _request(site)
    _emit(site, request, how, _regions(site, request, how))


IMPORT_RESIZE: Final[dict[str, Callable[[Site], None]]] = {
    "Resize": _import_resize,
    "Upsample": _import_upsample,
}


def _request(site: Site) -> _Request:
    shape = site.type(0).shape
    given = site.attributes.get("axes", range(len(shape)))
    axes = tuple(normalize_axis(axis, len(shape)) for axis in given)
    wanted = site.constant(3)
    if wanted is None or wanted.size == 0:
        scales = site.constant(2)
        if scales is None:
            raise UnsupportedError("neither scales nor sizes are given")
        return _scaled(shape, axes, [float(scale) for scale in scales])
    sizes = list(shape)
    for axis, size in zip(axes, wanted, strict=True):
        sizes[axis] = int(size)
    scales_of = [size / extent for size, extent in zip(sizes, shape, strict=True)]
    policy = site.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy in _POLICIES:
        common = _POLICIES[policy]([scales_of[axis] for axis in axes])
        for axis in axes:
            scales_of[axis], sizes[axis] = common, int(common * shape[axis] + 0.5)
    return _Request(axes, tuple(sizes), tuple(scales_of))


def _scaled(shape: Shape, axes: tuple[int, ...], scales: Sequence[float]) -> _Request:
    every = [1.0] * len(shape)
    for axis, scale in zip(axes, scales, strict=True):
        every[axis] = float(scale)
    sizes = tuple(int(scale * extent) for scale, extent in zip(every, shape, strict=True))
    return _Request(axes, sizes, tuple(every))


def _regions(site: Site, request: _Request, how: Interpolation) -> list[tuple[float, float]]:
    """First and last coordinate of every dimension, for tf_crop_and_resize."""
    regions = [(0.0, 1.0)] * site.rank(0)
    if how.coordinates != "tf_crop_and_resize":
        return regions
    roi = site.constant(1)
    if roi is None or roi.size != 2 * len(request.axes):
        raise UnsupportedError("no region to crop is given")
    starts, ends = roi.reshape(2, -1).tolist()
    for axis, start, end in zip(request.axes, starts, ends, strict=True):
        regions[axis] = (start, end)
    return regions


def _emit(
    site: Site, request: _Request, how: Interpolation, regions: Sequence[tuple[float, float]]
) -> None:
    """Emit the resizing of each dimension that changes, then fill what lies outside."""
    shape, dtype = site.type(0).shape, site.type(0).dtype
    if how.mode != "nearest" and not is_float(dtype):
        raise UnsupportedError(f"interpolation of {dtype}")
    if min(request.sizes, default=1) < 1:
        raise UnsupportedError(f"sizes {request.sizes}")
    value, outside = site.input(0), [np.zeros(size, dtype=np.bool_) for size in request.sizes]
    for axis in request.axes:
        resizing = Resizing(shape[axis], request.sizes[axis], request.scales[axis], regions[axis])
        if _keeps_all(resizing):
            continue
        rows = table(resizing, _of_axis(site, resizing, how))
        outside[axis] = rows.outside
        value = _resized(site, value, axis, rows, how)
    fill = float(site.attributes.get("extrapolation_value", 0.0))
    if not fill or not any(flags.any() for flags in outside):
        site.emit(Identity(), [value])
        return
    anywhere = reduce(np.logical_or.outer, outside)
    constant = np.where(anywhere, fill, 0.0).astype(dtype)
    site.emit(BinaryOp("add"), [value, site.add_constant("outside", constant)])


def _of_axis(site: Site, resizing: Resizing, how: Interpolation) -> Interpolation:
    old = site.opset < _COORDINATE_MODES_FROM and how.mode == "nearest"
    return replace(how, nearest="ceil") if old and resizing.scale < 1.0 else how


def _keeps_all(resizing: Resizing) -> bool:
    same = resizing.size == resizing.extent and isclose(resizing.scale, 1.0)
    return same and resizing.region == (0.0, 1.0)


def _resized(site: Site, value: str, axis: int, rows: WeightTable, how: Interpolation) -> str:
    dtype = site.type(0).dtype
    if how.mode == "nearest" and not rows.outside.any():
        positions = site.add_constant("positions", rows.positions[:, 0])
        return site.step(Gather(axis), [value, positions])
    if not is_float(dtype):
        raise UnsupportedError(f"cropping of {dtype} beyond its edges")
    tables = rows.used("float64" if dtype == "float64" else "float32")
    roles = ("positions", "weights")
    names = [site.add_constant(role, a) for role, a in zip(roles, tables, strict=True)]
    return site.step(Resample(axis), [value, *names])
