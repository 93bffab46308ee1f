"""Inline on GPUs: arithmetic is cheaper than a launch and a round trip through memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sketch.analysis.access import stage_loads
from sketch.rules.gpu_reuse import shares_operands
from sketch.rules.inline import is_large_inlined
from sketch.rules.patterns import MOST_READS, hosts_reduction, is_output
from sketch.rules.rule import State, Verdict
from sketch.schedule.program import StagePlan
from sketch.schedule.steps import Inline


@dataclass(frozen=True, slots=True)
class InlineInThreads:
    """Compute a cheap stage again for each reader, elementary functions too: softmax's exponentials
    in the sum and in the quotient.
    """

    eager: ClassVar[bool] = True

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """What ``InlineStage`` would leave open, where no tiled reduction reads the stage."""
        op, program = stage.op, state.program
        consumers = program.consumers(op)
        fixed = op.reduce is not None or is_output(program, stage) or not consumers
        if fixed or hosts_reduction(program, stage) or len(stage_loads(op)) > MOST_READS:
            return Verdict.SKIP
        tiled = any(shares_operands(consumer.op) for consumer in consumers)
        if tiled or any(is_large_inlined(consumer.op, op) for consumer in consumers):
            return Verdict.SKIP
        return Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state, without the stage."""
        return (state.then(Inline(stage.id)),)
