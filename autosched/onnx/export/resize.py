"""Which tables of positions and weights are one Resize in ONNX."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ir import Array
from autosched.graph.resize_tables import Interpolation, Resizing, table
from autosched.onnx.export.terms import GivenValue, OnnxCall, call, integers, reshaped

_KNOWN: Final = tuple(
    Interpolation(mode, coordinates, cubic_coefficient=coefficient, antialias=antialias)
    for mode, coefficient in (("linear", -0.75), ("cubic", -0.75), ("cubic", -0.5))
    for coordinates in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    for antialias in (False, True)
)
_FLOAT32_STEPS: Final = 1e-6


def resized(data: GivenValue, axis: int, positions: Array, weights: Array) -> OnnxCall | None:
    """The Resize of one dimension that has these tables, if there is one.

    Dimensions before and after it become one each, which onnxruntime takes of any rank.

    Args:
        data: floats.
        axis: the dimension.
        positions: inside of it.
        weights: of the elements there.
    """
    extent, size = data.shape[axis], len(positions)
    how = _interpolation(extent, _matrix(positions, weights, extent))
    if how is None or data.dtype != "float32":
        return None
    outer, inner = math.prod(data.shape[:axis]), math.prod(data.shape[axis + 1 :])
    maps = reshaped(data, (1, outer, extent, inner))
    none = np.zeros(0, np.float32)
    found = call(
        "Resize",
        maps,
        none,
        none,
        integers((1, outer, size, inner)),
        mode=how.mode,
        coordinate_transformation_mode=how.coordinates,
        cubic_coeff_a=how.cubic_coefficient,
        antialias=int(how.antialias),
    )
    return reshaped(found, (*data.shape[:axis], size, *data.shape[axis + 1 :]))


def _interpolation(extent: int, matrix: NDArray[np.float64]) -> Interpolation | None:
    size = len(matrix)
    for how in _KNOWN:
        known = table(Resizing(extent, size, size / extent), how)
        wanted = _matrix(known.positions, known.weights, extent)
        if np.allclose(wanted, matrix, rtol=0, atol=_FLOAT32_STEPS):
            return how
    return None


def _matrix(positions: NDArray[Any], weights: NDArray[Any], extent: int) -> NDArray[np.float64]:
    """What each new element takes of each old one."""
    found = np.zeros((len(positions), extent))
    np.add.at(found, (np.arange(len(positions))[:, None], positions), weights.astype(np.float64))
    return found
