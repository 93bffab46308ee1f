"""Where each element of a resized dimension comes from: positions and weights.

The formulas are those of the ONNX operator Resize; all coordinates are in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.errors import GraphError

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
_NEAR: Final = 4 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True, slots=True)
class Interpolation:
    """How values between elements are made; the names are those of the ONNX attributes."""

    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic_coefficient: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class WeightTable:
    """Element i is ``sum_t weights[i, t] * data[positions[i, t]]``, a constant if ``outside``.

    positions: int64 ``[m, taps]``; weights: float64 of that shape, 0 for elements ``outside``
    (bool ``[m]``).
    """

    positions: Int64
    weights: Float64
    outside: NDArray[np.bool_]

    def used(self, dtype: str) -> tuple[Int64, NDArray[Any]]:
        """Positions and weights of ``dtype``, without what counts for no element."""
        columns = np.flatnonzero(self.weights.any(axis=0)).tolist() or [0]
        return self.positions[:, columns], self.weights[:, columns].astype(dtype)


@dataclass(frozen=True, slots=True)
class Resizing:
    """One dimension: ``extent`` elements become ``size``, at ``scale`` elements for each old one.

    ``region``: first and last coordinate, relative to the extent, for tf_crop_and_resize.
    """

    extent: int
    size: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)


def table(resizing: Resizing, how: Interpolation) -> WeightTable:
    """Positions and weights of a resized dimension.

    Args:
        resizing: the dimension.
        how: its elements are made.

    Raises:
        GraphError: coordinates of another kind.
    """
    place = _coordinates(resizing, how.coordinates)
    last = resizing.extent - 1
    outside = np.zeros(resizing.size, dtype=np.bool_)
    if how.coordinates == "tf_crop_and_resize":
        outside = (place < 0) | (place > last)
    if how.mode == "nearest":
        positions = _nearest(_snapped(place), how.nearest)[:, None]
        weights = np.ones(positions.shape)
    else:
        stretch = min(resizing.scale, 1.0) if how.antialias else 1.0
        positions, weights = _taps(place, how, stretch)
    if how.exclude_outside:
        weights = np.where((positions < 0) | (positions > last), 0.0, weights)
    if how.exclude_outside or how.antialias:
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    weights = np.where(outside[:, None], 0.0, weights)
    return WeightTable(np.clip(positions, 0, last), weights, outside)


def _coordinates(resizing: Resizing, mode: str) -> Float64:
    """The place of each new element among the old ones."""
    index = np.arange(resizing.size, dtype=np.float64)
    extent, scale = resizing.extent, resizing.scale
    width = scale * extent  # need not be whole
    last = extent - 1
    start, end = resizing.region
    match mode:
        case "align_corners":
            return index * last / (width - 1) if width != 1 else np.zeros_like(index)
        case "asymmetric":
            return index / scale
        case "tf_crop_and_resize":
            if width == 1:
                return np.full_like(index, (start + end) * last / 2)
            return start * last + index * (end - start) * last / (width - 1)
        case "pytorch_half_pixel" if resizing.size == 1:
            return np.zeros_like(index)
        case "half_pixel_symmetric":
            shift = extent / 2 * (1 - resizing.size / width)
            return shift + (index + 0.5) / scale - 0.5
        case "tf_half_pixel_for_nn":
            return (index + 0.5) / scale
        case "half_pixel" | "pytorch_half_pixel":
            return (index + 0.5) / scale - 0.5
        case _:
            raise GraphError(f"coordinates of the kind {mode!r}")


def _snapped(place: Float64) -> Float64:
    """Places next to a half or a whole are that number.

    Scales are float32, a little off what the model means: at 1.7, element 17 comes from 10, not
    from 9.9999997, which would be rounded to another element.
    """
    halves = np.rint(2 * place) / 2
    return np.where(np.abs(place - halves) <= _NEAR * np.maximum(halves, 1), halves, place)


def _nearest(place: Float64, mode: str) -> Int64:
    match mode:
        case "floor":
            whole = np.floor(place)
        case "ceil":
            whole = np.ceil(place)
        case "round_prefer_ceil":
            whole = np.floor(place + 0.5)
        case _:
            whole = np.ceil(place - 0.5)
    return whole.astype(np.int64)


def _taps(place: Float64, how: Interpolation, stretch: float) -> tuple[Int64, Float64]:
    """Neighbours of each place and their weights, for a kernel widened by 1 / ``stretch``."""
    radius = (1 if how.mode == "linear" else 2) / stretch
    first = np.floor(place - radius).astype(np.int64) + 1
    count = int(np.ceil(2 * radius))
    positions = first[:, None] + np.arange(count)
    distance = np.abs(place[:, None] - positions) * stretch
    if how.mode == "linear":
        return positions, np.clip(1 - distance, 0.0, None)
    return positions, _cubic(distance, how.cubic_coefficient)


def _cubic(x: Float64, a: float) -> Float64:
    """Keys' convolution kernel (Keys, 1981, equation 4)."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
