"""Decisions: the numbers that a sketch leaves open."""

from __future__ import annotations

from dataclasses import dataclass

from sketch.errors import ScheduleError


@dataclass(frozen=True, slots=True)
class Decision:
    """A named number with an ordered set of values it may take.

    Attributes:
        name: ``stage.axis@level`` for the trip count of a tile level, or ``stage.axis@unroll``.
        choices: allowed values, ascending and distinct.
    """

    name: str
    choices: tuple[int, ...]

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
