"""Options of the space of a task."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autosched.system.limits import check_kinds, check_number


@dataclass(frozen=True, slots=True)
class SpaceOptions:
    """Which sketches of a task are searched.

    Attributes:
        rows: random rows of each sketch that the draft model ranks.
        few_rows: of each where sketches are only compared, or one is wanted soon.
        keep_within: sketches are kept whose best row is at most so many times as slow as that of
            the best one, as the draft model has it; and the best of each variant.
        most: sketches of a task.
        most_of_long: sketches of a task with a program of more than ``long_program`` stages.
        long_program: see ``most_of_long``.
        starts: random rows from which the draft model descends to better neighbours.
        apart: decisions in which they differ.
        start_rows: they are among so many of the best.
        descents: rounds of these descents.
        least_gain: share of the time that a neighbour must save to be taken; of less the draft
            model cannot be sure.
    """

    rows: int = 512
    few_rows: int = 64
    keep_within: float = 2.0
    most: int = 48
    most_of_long: int = 8
    long_program: int = 64
    starts: int = 8
    apart: int = 4
    start_rows: int = 128
    descents: int = 8
    least_gain: float = 0.005

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in (
            "rows", "few_rows", "keep_within", "most", "most_of_long", "long_program", "starts",
            "start_rows",
        ):  # fmt: skip
            check_number(name, getattr(self, name), 1, math.inf)
        check_number("apart", self.apart, 0, math.inf)
        check_number("descents", self.descents, 0, math.inf)
        check_number("least_gain", self.least_gain, 0, 1)

    def most_for(self, stages: int) -> int:
        """Sketches of a task whose longest program has so many stages."""
        return self.most if stages <= self.long_program else self.most_of_long
