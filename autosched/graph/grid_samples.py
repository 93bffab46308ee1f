"""Images and volumes at points that the network computes.

The data is read at the neighbours of each point, all channels at once, and these are weighted by
how near they are: one neighbour, or two or, in cubic mode, four along each dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import Final, Literal

import numpy as np

from autosched.graph.appends import Appends
from autosched.graph.ops.elementwise import (
    BinaryFunction,
    BinaryOp,
    CastOp,
    Clip,
    UnaryFunction,
    UnaryOp,
    Where,
)
from autosched.graph.ops.gather import GatherPoints
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Reshape, Transpose

Mode = Literal["nearest", "linear", "cubic"]
Outside = Literal["zeros", "border", "reflection"]
MOST_CUBIC: Final = 2
"""Dimensions of data that is interpolated cubically: of three, a point has 64 neighbours."""
_CUBIC: Final = -0.75  # the parameter of Keys' interpolation


@dataclass(frozen=True, slots=True)
class GridSampling:
    """How data is read between its elements and outside.

    Attributes:
        mode: which neighbours count, and how much.
        outside: what is read there.
        aligned: whether -1 and 1 are the centres of the outermost elements, not their edges.
    """

    mode: Mode
    outside: Outside
    aligned: bool


def grid_samples(make: Appends, data: str, grid: str, how: GridSampling) -> str:
    """Data at points: ``[n, c, *points]``.

    Args:
        make: adds operators.
        data: float32 ``[n, c, *extents]``.
        grid: float32 ``[n, *points, rank]``; the last dimension of the data comes first.
        how: to read.
    """
    return _Sampling(make, data, grid, how).result()


@dataclass(frozen=True, slots=True)
class _Neighbour:
    """One of the neighbours of a point in one dimension, each ``[n, points, 1]``.

    Attributes:
        index: int64, where it is read.
        weight: float32; None: it is the only one.
        met: bool, whether it is within the data; None: what is read elsewhere takes its place.
    """

    index: str
    weight: str | None
    met: str | None


class _Sampling:
    """The steps of one call."""

    def __init__(self, make: Appends, data: str, grid: str, how: GridSampling) -> None:
        self._make = make
        self._data = data
        self._grid = grid
        self._how = how
        self._batch, self._channels, *self._extents = make.type_of(data).shape
        self._result = make.type_of(grid).shape[1:-1]

    def result(self) -> str:
        """The data at all points."""
        rank = len(self._extents)
        last = self._make.add(Transpose((0, *range(2, rank + 2), 1)), self._data)
        flat = Reshape((self._batch, prod(self._extents), self._channels))
        data = self._make.add(flat, last)
        found = [self._neighbours(axis) for axis in range(rank)]
        terms = [self._term(data, corner) for corner in product(*found)]
        total = reduce(lambda one, other: self._binary("add", one, other), terms)
        grid = self._make.add(Reshape((self._batch, *self._result, self._channels)), total)
        return self._make.add(Transpose((0, rank + 1, *range(1, rank + 1))), grid)

    def _neighbours(self, axis: int) -> list[_Neighbour]:
        """What is read along one dimension of the data, counted from the first after channels."""
        place = self._place(axis)
        if self._how.mode == "nearest":
            return [self._neighbour(self._unary("round", place), None, axis)]
        low = self._unary("floor", place)
        beyond = self._binary("sub", place, low)
        before = self._binary("sub", self._number(1.0), beyond)
        first, weights = 0, [before, beyond]
        if self._how.mode == "cubic":
            first, weights = -1, [self._far(beyond), self._near(beyond)]
            weights += [self._near(before), self._far(before)]
        found = []
        for offset, weight in enumerate(weights, first):
            moved = self._shifted(low, offset)
            found.append(self._neighbour(moved, weight, axis))
        return found

    def _place(self, axis: int) -> str:
        """Where the points lie: 0 is the first row or column."""
        extent, place = self._extents[axis], self._shifted(self._coordinate(axis), 1.0)
        if self._how.aligned:  # rounded as onnx does
            place = self._scaled(self._scaled(place, 0.5), extent - 1.0)
        else:
            place = self._shifted(self._scaled(place, extent), -1.0)
            place = self._scaled(place, 0.5)
        # of a point beyond the border, cubic interpolation reads the data in front of it, too
        inside = self._how.outside == "border" and self._how.mode != "cubic"
        return self._clipped(place, axis) if inside else place

    def _coordinate(self, axis: int) -> str:
        """One coordinate of all points, ``[n, points, 1]``."""
        rank, shape = len(self._extents), self._make.type_of(self._grid).shape
        part = self._grid
        if rank > 1:
            first = rank - 1 - axis
            starts = (*(0 for _ in shape[:-1]), first)
            ends = (*shape[:-1], first + 1)
            part = self._make.add(Slice(starts, ends, (1,) * len(shape)), part)
        return self._make.add(Reshape((self._batch, prod(self._result), 1)), part)

    def _neighbour(self, place: str, weight: str | None, axis: int) -> _Neighbour:
        """``place``: a whole number."""
        if self._how.outside == "reflection":
            place = self._reflected(place, axis)
        inside = self._clipped(place, axis)
        met = self._binary("eq", inside, place) if self._how.outside == "zeros" else None
        return _Neighbour(self._make.add(CastOp("int64"), inside), weight, met)

    def _reflected(self, place: str, axis: int) -> str:
        """The place that a whole one has where the data and its mirror image alternate.

        The mirrors are the centres of the outermost elements, or, if corners are not aligned,
        their outer edges.
        """
        edge = 0.0 if self._how.aligned else 0.5
        length = self._extents[axis] - 1 + 2 * edge
        if not length:
            return place
        positive = self._unary("abs", self._shifted(place, edge))
        period = self._number(2 * length)
        phase = self._binary("trunc_mod", positive, period)
        back = self._binary("min", phase, self._binary("sub", period, phase))
        return self._shifted(back, -edge)

    def _clipped(self, place: str, axis: int) -> str:
        return self._make.add(Clip(0.0, self._extents[axis] - 1.0), place)

    def _near(self, distance: str) -> str:
        """Weight of an element at up to 1 from a point: ``((a + 2) d - (a + 3)) d d + 1``."""
        slope = self._shifted(self._scaled(distance, _CUBIC + 2), -(_CUBIC + 3))
        square = self._binary("mul", distance, distance)
        return self._shifted(self._binary("mul", slope, square), 1.0)

    def _far(self, distance: str) -> str:
        """Weight of the next one behind: ``((a e - 5 a) e + 8 a) e - 4 a``, where e = d + 1."""
        behind = self._shifted(distance, 1.0)
        total = self._shifted(self._scaled(behind, _CUBIC), -5 * _CUBIC)
        for more in (8 * _CUBIC, -4 * _CUBIC):
            total = self._shifted(self._binary("mul", total, behind), more)
        return total

    def _term(self, data: str, corner: Sequence[_Neighbour]) -> str:
        """The data at one neighbour of each point, weighted: ``[n, points, c]``."""
        value = self._make.add(GatherPoints(1), data, self._index(corner))
        weights = [side.weight for side in corner if side.weight is not None]
        if weights:
            weight = reduce(lambda one, other: self._binary("mul", one, other), weights)
            value = self._binary("mul", value, weight)
        met = [side.met for side in corner if side.met is not None]
        if not met:
            return value
        inside = reduce(lambda one, other: self._binary("and", one, other), met)
        return self._make.add(Where(), inside, value, self._number(0.0))

    def _index(self, corner: Sequence[_Neighbour]) -> str:
        """Where a neighbour is in the data as one row."""
        first, *others = (side.index for side in corner)
        for index, extent in zip(others, self._extents[1:], strict=True):
            width = self._make.array(np.asarray(extent, "int64"))
            first = self._binary("add", self._binary("mul", first, width), index)
        return first

    def _unary(self, function: UnaryFunction, value: str) -> str:
        return self._make.add(UnaryOp(function), value)

    def _binary(self, function: BinaryFunction, lhs: str, rhs: str) -> str:
        return self._make.add(BinaryOp(function), lhs, rhs)

    def _scaled(self, value: str, factor: float) -> str:
        return value if factor == 1 else self._binary("mul", value, self._number(factor))

    def _shifted(self, value: str, offset: float) -> str:
        return value if offset == 0 else self._binary("add", value, self._number(offset))

    def _number(self, number: float) -> str:
        return self._make.array(np.asarray(number, "float32"))
