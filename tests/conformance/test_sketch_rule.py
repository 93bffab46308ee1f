"""Rules keep what every rule promises; and the suite notices those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

import pytest

from autosched.testing import SketchRuleConformance
from sketch.errors import LoweringError
from sketch.rules.rule import SketchRule, State, Verdict
from sketch.rules.simple import schedule_simply
from sketch.schedule.program import StagePlan
from sketch.schedule.steps import Annotate, Reorder, Split, Step


@dataclass(frozen=True)
class ParallelTiles:
    """Tiles of the first axis in parallel."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.APPLY

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        return (state.then(*self.steps(stage)).done([stage.id]),)

    def steps(self, stage: StagePlan) -> list[Step]:
        first, *rest = stage.op.axes
        loops = [stage.loop(first), stage.loop(first, 1)]
        loops += [stage.loop(axis) for axis in (*rest, *stage.op.reduce_axes)]
        return [
            Split(stage.id, stage.axis(first), (stage.decision(first, "rows"),)),
            Reorder(stage.id, tuple(loops)),
            Annotate(stage.id, loops[0], "parallel"),
        ]


@dataclass(frozen=True)
class Unrolled:
    """Every stage in loops of its own, from a function of the library."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.APPLY if stage.op.reduce is not None else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        return (schedule_simply(state, stage.id),)


class TestParallelTiles(SketchRuleConformance):
    def make(self) -> SketchRule:
        return ParallelTiles()


class TestUnrolled(SketchRuleConformance):
    def make(self) -> SketchRule:
        return Unrolled()


@dataclass(frozen=True)
class SharedSums(ParallelTiles):
    """Threads share the terms of a sum, and all add to the same elements."""

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.APPLY if stage.op.reduce_axes else Verdict.SKIP

    def steps(self, stage: StagePlan) -> list[Step]:
        first, *rest = stage.op.reduce_axes
        order = [stage.loop(axis) for axis in (first, *stage.op.axes, *rest)]
        return [Reorder(stage.id, tuple(order)), Annotate(stage.id, order[0], "parallel")]


@dataclass(frozen=True)
class Silent(ParallelTiles):
    """Has nothing to offer for any stage."""

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.SKIP


@dataclass(frozen=True)
class Twice(ParallelTiles):
    """Offers the same state twice."""

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        return super().apply(state, stage) * 2


@dataclass(frozen=True)
class Moody(ParallelTiles):
    """Offers something the first time only."""

    calls: Iterator[int] = field(default_factory=count, compare=False)

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.SKIP if next(self.calls) else Verdict.APPLY


@pytest.mark.parametrize(
    ("rule", "test", "error"),
    [
        (SharedSums(), "test_programs_are_sound", LoweringError),
        (Silent(), "test_takes_part", AssertionError),
        (Silent(), "test_some_schedule_fits_the_target", AssertionError),
        (Twice(), "test_the_same_sketches_each_time", AssertionError),
        (Moody(), "test_the_same_sketches_each_time", AssertionError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ParallelTiles) else None,
)
def test_what_breaks_a_promise_is_noticed(rule: SketchRule, test: str, error: type) -> None:
    class Suite(SketchRuleConformance):
        def make(self) -> SketchRule:
            return rule

    with pytest.raises(error):
        getattr(Suite(), test)()
