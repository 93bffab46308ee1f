"""Boxes of points, in parts that fit in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from sketch.lang.affine import Interval
from sketch.lang.expr import Axis
from sketch.lang.scalar_functions import Array

Box = dict[Axis, Interval]

# Elements of 8 bytes: a general expression keeps some ten temporaries alive (80 MB).
GENERAL_ELEMENTS: Final = 1 << 20


def box_size(box: Mapping[Axis, Interval]) -> int:
    """Number of points in a box."""
    return math.prod(high - low + 1 for low, high in box.values())


def split_box(box: Box, cost: Callable[[Box], int], limit: int) -> Iterator[Box]:
    """Parts of ``box`` that cost at most ``limit`` each, in order.

    A box is halved along the axis that saves most (the outermost of several) until it fits.
    """
    if cost(box) <= limit or all(low == high for low, high in box.values()):
        yield box
        return
    halves: list[tuple[int, Axis]] = []
    for axis, (low, high) in box.items():
        if high > low:
            halves.append((cost({**box, axis: (low, (low + high) // 2)}), axis))
    least = min(value for value, _ in halves)
    axis = next(axis for value, axis in halves if value == least)
    low, high = box[axis]
    middle = (low + high) // 2
    yield from split_box({**box, axis: (low, middle)}, cost, limit)
    yield from split_box({**box, axis: (middle + 1, high)}, cost, limit)


def grid(box: Box) -> dict[Axis, Array]:
    """Open mesh: the values of each axis along a dimension of its own."""
    rank = len(box)
    mesh: dict[Axis, Array] = {}
    for dimension, (axis, (low, high)) in enumerate(box.items()):
        shape = [1] * rank
        shape[dimension] = -1
        mesh[axis] = np.arange(low, high + 1, dtype=np.int64).reshape(shape)
    return mesh
