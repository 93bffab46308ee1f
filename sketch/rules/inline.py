"""Inline: compute cheap spatial stages where they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from sketch.access import stage_loads
from sketch.program import StagePlan
from sketch.rules.patterns import hosts_reduction, is_expensive, is_output
from sketch.rules.rule import State, Verdict
from sketch.steps import Inline

# A stage with elementary functions is not offered for more copies than this.
_MOST_COPIES: Final = 2


@dataclass(frozen=True, slots=True)
class InlineStage:
    """Before: ``B[i] = A[i]*2`` and ``C[i] = B[i]+1``; after: ``C[i] = A[i]*2+1``.

    A stage with elementary functions is only inlined where each element is read once.
    """

    eager: ClassVar[bool] = True

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Spatial stages that are not outputs and cost little to recompute."""
        op = stage.op
        if op.reduce is not None or is_output(state.program, stage) or op.store is not None:
            return Verdict.SKIP
        consumers = state.program.consumers(op.name)
        if hosts_reduction(state.program, stage):
            return Verdict.SKIP
        if not consumers or not is_expensive(op):
            return Verdict.APPLY_AND_STOP if consumers else Verdict.SKIP
        reads = [x for c in consumers for x in stage_loads(c.op) if x.tensor.op.name == op.name]
        once = len(reads) == 1 and consumers[0].op.reduce is None
        if once:
            return Verdict.APPLY_AND_STOP
        return Verdict.APPLY if len(consumers) <= _MOST_COPIES else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state, without the stage."""
        return (state.then(Inline(stage.op.name)),)
