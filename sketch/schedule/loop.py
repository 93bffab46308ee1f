"""Axes and loops as values: an axis is its position in its stage, a loop a level of an axis.

What a loop is for follows from its kind (``LoopKind``) and, where it is serial, its ``Level``.
Names are made of loops for printing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from sketch.lang.expr import Axis
from sketch.lang.tensor import Compute

AxisIndex = int
"""The position of an axis among those of its stage: spatial axes first, then reduce axes."""


class Level(IntEnum):
    """What the outer levels of a tiled axis are for."""

    OUTER = 0  # shared out among threads
    L2 = 1  # a tile that fits the L2 cache


class LoopId(NamedTuple):
    """One loop of a stage; a tuple, as schedules are looked up by loop.

    Attributes:
        axis: position of its axis.
        level: 0 for the outermost loop of the axis.
    """

    axis: AxisIndex
    level: int

    def __str__(self) -> str:
        """``1.0``: how records write a loop."""
        return f"{self.axis}.{self.level}"


def loop_label(op: Compute, loop: LoopId) -> str:
    """``k.1``, for printing: the loop at level 1 of the axis ``k``."""
    return f"{op.all_axes[loop.axis].name}.{loop.level}"


def axis_index(op: Compute, axis: Axis) -> AxisIndex:
    """The position of an axis of ``op``."""
    return op.all_axes.index(axis)
