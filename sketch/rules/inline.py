"""Inline: compute cheap spatial stages where they are read."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Final

from sketch.analysis.access import has_elementary_call, is_ordered_access, needs_tiling, stage_loads
from sketch.analysis.contraction import contraction_of
from sketch.analysis.expr_size import inlined_size
from sketch.analysis.selecting import selecting_axes
from sketch.lang.expr import Axis, Const, Load
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute
from sketch.rules.patterns import (
    MOST_READS,
    hosts_reduction,
    is_made_of_product,
    is_output,
    vector_axis,
)
from sketch.rules.rule import State, Verdict
from sketch.rules.unit_fit import fits_of
from sketch.schedule.program import StagePlan
from sketch.schedule.steps import Inline
from sketch.target.units import units_of

# A stage with elementary functions is not offered for more copies than this.
_MOST_COPIES: Final = 2
# What statements may grow to by inlining; a sub-expression that is used twice counts twice.
_MOST_OPERATIONS: Final = 768
_MOST_LEVELS: Final = 64
# A stage that is expensive to recompute is not offered for more computations of one element.
_MOST_REPEATS: Final = 64


@dataclass(frozen=True, slots=True)
class InlineStage:
    """Before: ``B[i] = A[i]*2`` and ``C[i] = B[i]+1``; after: ``C[i] = A[i]*2+1``.

    A stage that is expensive to recompute (elementary functions) or that reads against the order of
    memory (a transposition) is inlined for good only where each element is read once, and never
    where each of many rows would compute it again; otherwise both forms are offered.  Statements do
    not grow without bound: a long chain becomes several.

    Attributes:
        between_products: whether what a product reads of another one is inlined too: it would be
            computed again for every tile of the second.
    """

    between_products: bool = True

    eager: ClassVar[bool] = True

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Spatial stages that are not outputs."""
        op, program = stage.op, state.program
        consumers = program.consumers(op)
        fixed = op.reduce is not None or is_output(program, stage) or not consumers
        if fixed or hosts_reduction(program, stage):
            return Verdict.SKIP
        if not self.between_products and _is_between(state, stage):
            return Verdict.SKIP
        if any(c.op.reduce is not None for c in consumers) and len(stage_loads(op)) > MOST_READS:
            return Verdict.SKIP
        if any(is_large_inlined(c.op, op) for c in consumers) or _is_read_by_unit(state, stage):
            return Verdict.SKIP
        if selecting_axes(op) and any(
            c.op.reduce is not None or selecting_axes(c.op) for c in consumers
        ):
            # A pass of a transform in another, or in a product: what they share is computed again.
            return Verdict.SKIP
        ordered = all(is_ordered_access(op, load.indices) for load in stage_loads(op))
        if ordered and not has_elementary_call(op):
            return Verdict.APPLY_AND_STOP
        if any(_is_repeated(c.op, op) for c in consumers):
            return Verdict.SKIP
        reads = [x for c in consumers for x in stage_loads(c.op) if x.tensor.op is op]
        if len(reads) == 1 and consumers[0].op.reduce is None:
            return Verdict.APPLY_AND_STOP
        return Verdict.APPLY if len(consumers) <= _MOST_COPIES else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state, without the stage."""
        return (state.then(Inline(stage.id)),)


def _is_between(state: State, stage: StagePlan) -> bool:
    """Whether a product reads the stage, which is made of another one."""
    consumers = (plan.op for plan in state.program.consumers(stage.op))
    read = any(op.reduce is not None and needs_tiling(op) for op in consumers)
    return read and is_made_of_product(state.program, stage.op, state.scheduled)


def _is_read_by_unit(state: State, stage: StagePlan) -> bool:
    """Whether a tensor unit computes the one product that reads the stage, as its first operand,
    and would not know one that computes what the stage does, such as zeros around an image, or
    reads what it does, such as the pixels of several lines.
    """
    op, program = stage.op, state.program
    consumers, body = program.consumers(op), op.bodies[0]
    turned = isinstance(body, Load) and all(isinstance(i, Axis | Const) for i in body.indices)
    if len(consumers) != 1 or turned:
        return False
    product = contraction_of(consumers[0].op)
    if product is None or product.lhs.load.tensor.op is not op:
        return False
    return bool(fits_of(program, consumers[0], units_of(state.target)))


def _is_repeated(consumer: Compute, op: Compute) -> bool:
    """Whether an element-wise stage would compute each element of ``op`` many times, in vectors:
    what stands still along the vector axis is computed once for a row.
    """
    if consumer.reduce is not None or prod(consumer.shape) < _MOST_REPEATS * prod(op.shape):
        return False
    vector = vector_axis(consumer)
    reads = (load for load in stage_loads(consumer) if load.tensor.op is op)
    return vector is not None and any(
        vector in walk(index) for load in reads for index in load.indices
    )


def is_large_inlined(consumer: Compute, op: Compute) -> bool:
    """Whether a statement would grow too long with ``op`` computed in it."""
    size = inlined_size(consumer, op)
    return size.operations > _MOST_OPERATIONS or size.levels > _MOST_LEVELS
