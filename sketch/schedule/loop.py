"""Axes and loops as values: an axis is its position in its stage, a loop a level of an axis.

What a loop is for follows from its kind (``LoopKind``) and, where it is serial, its ``Level``.
``sketch.schedule.labels`` makes names of loops for printing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

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
