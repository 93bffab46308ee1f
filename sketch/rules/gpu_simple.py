"""GPU schedule of stages without tiling: one point a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sketch.nest.loopnest import LoopKind
from sketch.rules.rule import State, Verdict
from sketch.schedule.decision import decision_name
from sketch.schedule.loop import loop_name
from sketch.schedule.program import StagePlan
from sketch.schedule.steps import Annotate, Reorder, Split


@dataclass(frozen=True, slots=True)
class ScheduleOnThreads:
    """Before: ``for i, for j``; after: ``block i.0, block j.0, thread j.1``; reductions serial."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Every stage that no other rule took."""
        return Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state."""
        name, axes = stage.op.name, [a.name for a in stage.op.axes]
        reduce = [loop_name(a.name, 0) for a in stage.op.reduce_axes]
        if not axes:  # a single value: one thread reduces
            return (state.done([name]),)
        blocks = [loop_name(a, 0) for a in axes]
        thread = loop_name(axes[-1], 1)
        state = state.then(
            Split(name, axes[-1], (decision_name(name, axes[-1], 1),)),
            Reorder(name, (*blocks, thread, *reduce)),
            *(Annotate(name, loop, LoopKind.BLOCK.value) for loop in blocks),
            Annotate(name, thread, LoopKind.THREAD.value),
        )
        return (state.done([name]),)
