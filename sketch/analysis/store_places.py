"""Where in a shared buffer a stage writes, dimension by dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from sketch.errors import ExpressionError
from sketch.lang.tensor import Compute

Coordinate = tuple[int, Mapping[int, int]]
"""One dimension of a place: its offset, and the stride of each axis (by position) that moves it."""


def keeps_to_dimensions(op: Compute) -> bool:
    """Whether a stage has no store map, or one that ``place_of`` takes."""
    if op.store is None:
        return True
    try:
        place_of(op)
    except ExpressionError:
        return False
    return True


def place_of(op: Compute) -> tuple[Coordinate, ...]:
    """Where in its buffer a stage with a store map writes, dimension by dimension.

    Raises:
        ExpressionError: the strides do not keep to dimensions.
    """
    assert op.store is not None
    extents = op.store.buffer.shape
    steps = [prod(extents[dim + 1 :]) for dim in range(len(extents))]
    offsets, rest = [], op.store.offset
    for step in steps:
        offsets.append(rest // step)
        rest %= step
    room = [extent - 1 - offset for extent, offset in zip(extents, offsets, strict=True)]
    terms: list[dict[int, int]] = [{} for _ in extents]
    for position, (axis, stride) in enumerate(zip(op.axes, op.store.strides, strict=True)):
        if axis.extent == 1:
            continue
        dimension = _dimension_of(stride, axis.extent, steps, room)
        if dimension is None:
            raise ExpressionError(
                f"axis {axis.name} crosses dimensions of {op.store.buffer.name}", f"stage {op.name}"
            )
        terms[dimension][position] = stride // steps[dimension]
        room[dimension] -= (axis.extent - 1) * stride // steps[dimension]
    return tuple(zip(offsets, terms, strict=True))


def _dimension_of(
    stride: int, extent: int, steps: Sequence[int], room: Sequence[int]
) -> int | None:
    """The innermost dimension that an axis can walk; None if there is none."""
    for dimension in reversed(range(len(steps))):
        step = steps[dimension]
        if stride > 0 and stride % step == 0 and (extent - 1) * stride // step <= room[dimension]:
            return dimension
    return None
