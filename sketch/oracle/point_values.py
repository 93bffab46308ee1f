"""Values of a stage at some of its points: memory for those, whatever the shape of the stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sketch.lang.scalar_functions import Array
from sketch.lang.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class PointValues:
    """One output of a stage, known at some points.

    Attributes:
        shape: of the whole output.
        positions: int64 [P], flat row-major positions of the points, ascending.
        values: [P].
    """

    shape: tuple[int, ...]
    positions: Array
    values: Array


Elements = Array | PointValues
ElementLoader = Callable[[Tensor], Elements]


def elements_at(source: Elements, indices: Sequence[Array]) -> Array:
    """Elements at points that are there.

    Args:
        source: a whole array, or some points of one.
        indices: int64, one array a dimension, each inside its extent; they broadcast.
    """
    if isinstance(source, PointValues):
        return source.values[np.searchsorted(source.positions, _positions(indices, source.shape))]
    if source.flags.c_contiguous:
        return source.reshape(-1).take(_positions(indices, source.shape))
    found: Array = source[tuple(indices)]
    return found


def distinct(positions: Array) -> Array:
    """The positions, [P], ascending and each once.  ``np.unique`` would import masked arrays."""
    ordered = np.sort(positions, axis=None)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    found: Array = ordered[new]
    return found


def _positions(indices: Sequence[Array], shape: Sequence[int]) -> Array:
    """Flat row-major positions.  Indices that lie along few dimensions of a mesh are added first,
    so that only the last sum is as large as the result.
    """
    flat = np.zeros((), np.int64)
    for index, extent in zip(indices, shape, strict=True):
        flat = flat * extent + index
    return flat
