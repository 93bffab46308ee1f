"""Inline on GPUs: arithmetic is cheaper than a launch and a round trip through memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sketch.analysis.access import stage_loads
from sketch.lang.expr import Const, Load, Select
from sketch.lang.tensor import Operation
from sketch.rules.gpu_reuse import shares_operands
from sketch.rules.inline import InlineStage, is_large_inlined
from sketch.rules.patterns import MOST_READS, fusable_consumer, hosts_reduction, is_output
from sketch.rules.rule import State, Verdict
from sketch.schedule.program import Program, StagePlan, operations_read
from sketch.schedule.stage import Role
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
        fixed = fixed or is_only_host(program, stage) or ends_rows(program, stage)
        if fixed or hosts_reduction(program, stage) or len(stage_loads(op)) > MOST_READS:
            return Verdict.SKIP
        tiled = any(shares_operands(consumer.op) for consumer in consumers)
        if tiled or any(is_large_inlined(consumer.op, op) for consumer in consumers):
            return Verdict.SKIP
        return Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state, without the stage."""
        return (state.then(Inline(stage.id)),)


@dataclass(frozen=True, slots=True)
class InlineBesideSums:
    """``InlineStage`` for what is no host of a sum, of a row or of one thread, and no frame."""

    eager: ClassVar[bool] = True

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """As ``InlineStage``, but for stages that copy a sum out of the threads that compute it,
        for those that end rows (a softmax) before a product, and for zeros around what one reads.
        """
        program = state.program
        if is_only_host(program, stage) or ends_rows(program, stage) or is_frame(program, stage):
            return Verdict.SKIP
        return InlineStage().applies(state, stage)

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state, without the stage."""
        return InlineStage().apply(state, stage)


def is_only_host(program: Program, stage: StagePlan) -> bool:
    """Whether a sum would be left to a kernel of its own, in which it is in global memory, if the
    stage that copies it out were inlined: no stage of the root reads it alone, element by element.
    """
    if Role.COPY_OUT not in stage.roles:
        return False
    reader = fusable_consumer(program, stage)
    return reader is None or reader.op.reduce is not None or reader.attach is not None


def is_frame(program: Program, stage: StagePlan) -> bool:
    """Whether a stage only puts zeros around what a tiled reduction reads: what fills its tiles
    leaves them out, and the reduction tests nothing.
    """
    match stage.op.bodies[0]:
        case Select(then=Load(), otherwise=Const(value=0)):
            return any(shares_operands(reader.op) for reader in program.consumers(stage.op))
    return False


def ends_rows(program: Program, stage: StagePlan) -> bool:
    """Whether a stage reads sums of rows, which it could host, and a tiled reduction reads it,
    maybe through its tiles: inlined there, it would leave each of them to a launch of its own.
    """
    consumers = program.consumers(stage.op)
    if not any(shares_operands(c.op) or Role.CACHE in c.roles for c in consumers):
        return False
    reached: set[Operation] = {stage.op, *operations_read(stage.op)}
    for plan in reversed(program.stages):
        if plan.op in reached and plan.op.reduce is None:
            reached |= operations_read(plan.op)
    sums = (plan.op for plan in program.stages if plan.op.reduce is not None)
    return any(op in reached and not shares_operands(op) for op in sums)
