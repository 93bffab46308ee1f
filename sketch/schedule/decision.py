"""Decisions: the numbers that a sketch leaves open.

A decision is a value: the trips of a loop, another number about the loops of an axis, or whatever a
rule means by a text of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sketch.errors import ScheduleError
from sketch.schedule.loop import AxisIndex
from sketch.schedule.stage import StageId


class LoopDecision(NamedTuple):
    """A number about the loops of one axis; a tuple, as rows are looked up by decision.

    Attributes:
        stage: that has the axis.
        axis: whose loops it is about.
        level: "1", "2", ... for the trips of the loop at that level; else what it says, such as
            "unroll" or "prefetch".
    """

    stage: StageId
    axis: AxisIndex
    level: str

    def __str__(self) -> str:
        """By position, for messages; ``Sketch.label`` has the names of the program."""
        return f"{self.stage}.{self.axis}@{self.level}"


DecisionId = LoopDecision | str
"""What a decision is about: loops, or the free meaning that a rule gave it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A number with an ordered set of values it may take.

    Attributes:
        id: what it is about.
        choices: allowed values, ascending and distinct.
        stage: the stage whose loops it is about; the consumer, where one number tiles both a stage
            and what is computed inside it.
    """

    id: DecisionId
    choices: tuple[int, ...]
    stage: StageId

    def __post_init__(self) -> None:
        if not self.choices or list(self.choices) != sorted(set(self.choices)):
            raise ScheduleError(
                f"the choices of {self.id} must be ascending and distinct, got {self.choices}"
            )


@dataclass(frozen=True, slots=True)
class TileChain:
    """The tile levels of one axis, inner first: their product must not exceed the axis.

    Attributes:
        extent: extent of the axis.
        fixed: product of the innermost levels that are not decisions (SIMD lanes).
        columns: decisions from the innermost level outwards, as positions among the sketch's.
    """

    extent: int
    fixed: int
    columns: tuple[int, ...]
