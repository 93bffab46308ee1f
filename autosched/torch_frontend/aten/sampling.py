"""Converters of operators that resize images and volumes, or read them at points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from autosched.graph.grid_samples import GridSampling, Mode, Outside, grid_samples
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.resample import Resample
from autosched.graph.resize_tables import Interpolation, Resizing, table
from autosched.torch_frontend.aten.call import AtenCall, Converter
from autosched.torch_frontend.tensors import to_numpy

_FLOAT: Final = "float32"
_SCALES: Final = ("scales", "scales_d", "scales_h", "scales_w")
_LINEAR: Final = Interpolation("linear", "half_pixel")
_CUBIC: Final = Interpolation("cubic", "half_pixel")
_MODES: Final[tuple[Mode, ...]] = ("linear", "nearest", "cubic")  # by torch's numbers
_OUTSIDE: Final[tuple[Outside, ...]] = ("zeros", "border", "reflection")


def _dimensions(call: AtenCall) -> list[tuple[int, Resizing, float | None]]:
    """Axes, their resizing, and the scale of each, where it is given."""
    scales = [call[name] for name in _SCALES if name in call.given]
    extents = call.shape("self")[2:]
    parts = enumerate(zip(extents, call["output_size"], scales, strict=True), 2)
    return [
        (axis, Resizing(extent, size, scale or size / extent), scale)
        for axis, (extent, size, scale) in parts
    ]


def _nearest(exact: bool, call: AtenCall) -> str:
    """Torch says itself which elements it takes: that depends on how it rounds."""
    import torch

    aten = torch.ops.aten
    operator = aten._upsample_nearest_exact1d if exact else aten.upsample_nearest1d
    data = call.value("self")
    for axis, how, scale in _dimensions(call):
        if how.size != how.extent:
            row = torch.arange(how.extent, dtype=torch.float32)[None, None]
            positions = operator(row, [how.size], scale)[0, 0].to(torch.int64)
            data = call.add(Gather(axis), data, call.array(to_numpy(positions)))
    return data


def _interpolated(how: Interpolation, call: AtenCall) -> str:
    """Separably: one dimension after the other."""
    call.require(call.dtype == _FLOAT, f"interpolation of {call.dtype}")
    aligned, plain = call["align_corners"], how == _LINEAR  # which torch copies at any scale
    dimensions = _dimensions(call)
    if aligned and how.antialias:
        aligned, dimensions = False, [_smoothly_aligned(*given) for given in dimensions]
    data = call.value("self")
    for axis, resizing, scale in dimensions:
        if resizing.size == resizing.extent and (aligned or scale is None or plain):
            continue
        if aligned:
            resizing = replace(resizing, scale=resizing.size / resizing.extent)
        rows = table(resizing, replace(how, coordinates="align_corners") if aligned else how)
        positions, weights = map(call.array, rows.used(call.dtype))
        data = call.add(Resample(axis), data, positions, weights)
    return data


def _smoothly_aligned(
    axis: int, resizing: Resizing, _: float | None
) -> tuple[int, Resizing, float]:
    """Corners that are aligned say how far elements are apart; torch has them half a distance from
    the edge all the same.
    """
    apart = resizing.size > 1 and resizing.extent > 1
    scale = (resizing.size - 1) / (resizing.extent - 1) if apart else inf
    return axis, replace(resizing, scale=scale), scale


def _smoothed(how: Interpolation) -> Interpolation:
    """What counts for an element that stands for several old ones, as in Pillow."""
    return replace(how, cubic_coefficient=-0.5, antialias=True, exclude_outside=True)


def _grid_sampler(call: AtenCall) -> str:
    mode, outside = _MODES[call["interpolation_mode"]], _OUTSIDE[call["padding_mode"]]
    data, grid = call.value("input"), call.value("grid")
    floats = call.type_of(data).dtype == call.type_of(grid).dtype == _FLOAT
    call.require(floats, f"samples of {call.dtype}")
    return grid_samples(call, data, grid, GridSampling(mode, outside, call["align_corners"]))


SAMPLING: Final[Mapping[str, Converter]] = {
    "_upsample_bicubic2d_aa.default": partial(_interpolated, _smoothed(_CUBIC)),
    "_upsample_bilinear2d_aa.default": partial(_interpolated, _smoothed(_LINEAR)),
    "_upsample_nearest_exact1d.default": partial(_nearest, True),
    "_upsample_nearest_exact2d.default": partial(_nearest, True),
    "_upsample_nearest_exact3d.default": partial(_nearest, True),
    "grid_sampler_2d.default": _grid_sampler,
    "grid_sampler_3d.default": _grid_sampler,
    "upsample_bicubic2d.default": partial(_interpolated, _CUBIC),
    "upsample_bilinear2d.default": partial(_interpolated, _LINEAR),
    "upsample_linear1d.default": partial(_interpolated, _LINEAR),
    "upsample_nearest1d.default": partial(_nearest, False),
    "upsample_nearest2d.default": partial(_nearest, False),
    "upsample_nearest3d.default": partial(_nearest, False),
    "upsample_trilinear3d.default": partial(_interpolated, _LINEAR),
}
