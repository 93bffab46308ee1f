"""Decisions: the numbers that a sketch leaves open.

A decision is a value: the trips of a loop, another number about the loops of an axis, or whatever a
rule means by a text of its own.  ``str`` prints it; nothing but the reader of logs reads that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from sketch.errors import ScheduleError

_ESCAPES: Final = (("%", "%25"), (".", "%2E"), ("@", "%40"))


class LoopDecision(NamedTuple):
    """A number about the loops of one axis; a tuple, as rows are looked up by decision.

    Attributes:
        stage: that has the axis.
        axis: whose loops it is about.
        level: "1", "2", ... for the trips of the loop at that level; else what it says, such as
            "unroll" or "prefetch".
    """

    stage: str
    axis: str
    level: str

    def __str__(self) -> str:
        """``stage.axis@level``, which no other decision gives.

        The characters ``. @ %`` of an axis are written ``%2E %40 %25``.
        """
        axis = self.axis
        for character, text in _ESCAPES:
            axis = axis.replace(character, text)
        return f"{self.stage}.{axis}@{self.level}"

    def __repr__(self) -> str:
        return repr(str(self))

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


DecisionId = LoopDecision | str
"""What a decision is about: loops, or the free meaning that a rule gave it."""


def loop_decision(stage: str, axis: str, level: int | str) -> LoopDecision:
    """The trips of the loop at ``level`` of an axis, or a number called so about its loops."""
    return LoopDecision(stage, axis, str(level))


def decision_of(printed: str) -> DecisionId:
    """The decision that logs call ``printed``; a text that no loop prints is a free meaning."""
    path, at, level = printed.rpartition("@")
    stage, dot, axis = path.rpartition(".")
    if not (at and dot):
        return printed
    for character, text in reversed(_ESCAPES):
        axis = axis.replace(text, character)
    found = LoopDecision(stage, axis, level)
    return found if str(found) == printed else printed


@dataclass(frozen=True, slots=True)
class Decision:
    """A number with an ordered set of values it may take.

    Attributes:
        name: what it is about.
        choices: allowed values, ascending and distinct.
        stage: the stage whose loops it is about; the consumer, where one number tiles both a stage
            and what is computed inside it.
    """

    name: DecisionId
    choices: tuple[int, ...]
    stage: str = ""

    def __post_init__(self) -> None:
        if not self.choices or list(self.choices) != sorted(set(self.choices)):
            raise ScheduleError(
                f"the choices of {self.name} must be ascending and distinct, got {self.choices}"
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
