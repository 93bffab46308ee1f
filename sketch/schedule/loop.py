"""Loops as values: which level of which axis of a stage.  Names are made of them for printing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from sketch.lang.tensor import Compute


class Level(IntEnum):
    """What the outer levels of a tiled axis are for."""

    OUTER = 0  # shared out among threads
    L2 = 1  # a tile that fits the L2 cache


@dataclass(frozen=True, slots=True, order=True)
class LoopId:
    """One loop of a stage.

    Attributes:
        axis: position of its axis among the stage's, spatial axes first.
        level: 0 for the outermost loop of the axis.
    """

    axis: int
    level: int


def loop_name(axis: str, level: int) -> str:
    """``k.1``: how steps and printed nests call the loop at ``level`` of the axis ``k``."""
    return f"{axis}.{level}"


@lru_cache(maxsize=4096)  # every step that names a loop asks
def loop_ids(op: Compute, levels: tuple[int, ...]) -> Mapping[str, LoopId]:
    """The loops of ``op`` by name, axis by axis; ``levels``: how many loops each axis has."""
    return {
        loop_name(axis.name, level): LoopId(position, level)
        for position, (axis, count) in enumerate(
            zip((*op.axes, *op.reduce_axes), levels, strict=True)
        )
        for level in range(count)
    }
