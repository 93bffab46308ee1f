"""Cache write: give a tiled reduction an element-wise consumer when it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sketch.rules.patterns import fusable_consumer, vector_axis
from sketch.rules.rule import State, Verdict
from sketch.schedule.program import StagePlan
from sketch.schedule.stage import Role
from sketch.schedule.steps import CacheWrite


@dataclass(frozen=True, slots=True)
class AddCacheWrite:
    """Accumulate in a private tile and copy it out: ``C.local += ...; C = C.local``.

    The copy is then the consumer that tiling fuses with, so that every tiled reduction has one
    form.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Root reductions that nothing reads element by element."""
        op = stage.op
        if op.reduce is None or Role.ACCUMULATE in stage.roles or vector_axis(op) is None:
            return Verdict.SKIP
        consumer = fusable_consumer(state.program, stage)
        if consumer is not None and consumer.id not in state.scheduled:
            return Verdict.SKIP
        return Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state with the stage split in two; both are still to be scheduled."""
        return (state.then(CacheWrite(stage.id)),)
