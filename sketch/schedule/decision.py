"""Decisions: the numbers that a sketch leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sketch.errors import ScheduleError

_ESCAPES: Final = (("%", "%25"), (".", "%2E"), ("@", "%40"))


def decision_name(stage: str, axis: str, level: int | str) -> str:
    """``stage.axis@level``, a name that no other axis gives.

    The characters ``. @ %`` of an axis are written ``%2E %40 %25``.
    """
    for character, text in _ESCAPES:
        axis = axis.replace(character, text)
    return f"{stage}.{axis}@{level}"


def decision_parts(name: str) -> tuple[str, str, str] | None:
    """(stage, axis, level) of a name that ``decision_name`` made; None for other names."""
    path, at, level = name.rpartition("@")
    stage, dot, axis = path.rpartition(".")
    if not (at and dot):
        return None
    for character, text in reversed(_ESCAPES):
        axis = axis.replace(text, character)
    return stage, axis, level


@dataclass(frozen=True, slots=True)
class Decision:
    """A named number with an ordered set of values it may take.

    Attributes:
        name: ``stage.axis@level`` for the trip count of a tile level, or ``stage.axis@unroll``.
        choices: allowed values, ascending and distinct.
        stage: the stage whose loops it is about; the consumer, where one number tiles both a stage
            and what is computed inside it.
    """

    name: str
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
        names: decisions from the innermost level outwards.
    """

    extent: int
    fixed: int
    names: tuple[str, ...]
