"""Axes and loops as values: an axis is its position in its stage, a loop a level of an axis.

What a loop is for, its ``LoopRole``, follows from how it runs (``LoopKind``) and where it stands in
its axis; ``StagePlan.role`` tells it.  ``sketch.schedule.labels`` makes names for printing.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

AxisIndex = int
"""The position of an axis among those of its stage: spatial axes first, then reduce axes."""


class LoopRole(Enum):
    """What a loop is for."""

    SERIAL = "serial"
    PARALLEL = "parallel"  # shared out among the threads of a CPU
    L2_TILE = "tile of the L2 cache"  # serial, the first level inside the outermost
    REGISTER_TILE = "register tile"  # copies of a statement for other results
    TERMS = "terms"  # copies of a statement for other terms of the same result
    VECTOR = "vector"  # the lanes of one SIMD instruction
    UNIT = "tensor unit"  # what one instruction does beside its lanes
    BLOCK = "block"  # of a GPU
    VTHREAD = "virtual thread"  # a tile of one thread, in strides of all threads
    THREAD = "thread"  # of a block: warps, where lanes are inside
    LANE = "lane"  # the inner one of two loops of threads along an axis


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
