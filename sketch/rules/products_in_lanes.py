"""Products in lanes: sums of products whose terms lie together and whose results lie apart.

    s(j) += q[k] * K[j, k]     ->     parallel j.0, j.1
    d(j) = f(s[j])                      unrolled j, vector p:  s.rf(j, p) += q[k, p] * K[j, k, p]
                                        unrolled j:            s(j) = the sum of s.rf(j, p) over p
                                        vector j.2:            d(j) = f(s[j])

A vector of results would take each of its elements from a line of its own of ``K``, for every term
again.  Lanes of terms read ``K`` as it lies.  As many results as a vector has are computed at a
time, each in a register of its own, so that none waits for its last term.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from sketch.analysis.contraction import Contraction, contraction_of
from sketch.lang.expr import Axis
from sketch.lang.tensor import Placeholder
from sketch.nest.lanes import lane_bytes
from sketch.nest.loopnest import LoopKind
from sketch.rules.patterns import lanes_for, vector_axis
from sketch.rules.rule import State, Verdict
from sketch.rules.tiling import tiled_producer
from sketch.schedule.loop import LoopId
from sketch.schedule.program import StagePlan
from sketch.schedule.stage import Role
from sketch.schedule.steps import Annotate, ComputeAt, Reorder, Rfactor, Split, Step


@dataclass(frozen=True, slots=True)
class ComputeProductsInLanes:
    """Partial sums of one vector each for a vector of results, then these results.

    Beside what tiling offers: with more rows than lanes vectors are read often enough to pay for
    gathering them, and constants are packed.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Spatial stages that read such sums, of few rows, element by element."""
        return Verdict.SKIP if _place(state, stage) is None else Verdict.APPLY

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state, with the partial sums, the sums and their consumer scheduled."""
        place = _place(state, stage)
        assert place is not None
        sums, terms, rows = place
        parts = state.target.lanes(lane_bytes(sums.op))
        divided = state.then(Rfactor(sums.id, sums.axis(terms), parts, interleave=True))
        combined = divided.program.stage(sums.id)
        before = {plan.id for plan in state.program.stages}
        (partial,) = (plan for plan in divided.program.stages if plan.id not in before)
        positions = [n for n, axis in enumerate(sums.op.axes) if axis in rows]
        host, at = _host_steps(divided, stage, [stage.op.axes[n] for n in positions])
        steps = (
            *host,
            ComputeAt(combined.id, stage.id, at),
            ComputeAt(partial.id, stage.id, at),
            *_partial_steps(partial),
            *_combined_steps(combined),
        )
        return (divided.then(*steps).done([stage.id, combined.id, partial.id]),)


def _place(state: State, stage: StagePlan) -> tuple[StagePlan, Axis, tuple[Axis, ...]] | None:
    """The sums that a stage reads, the axis of their terms, and the axes of their rows."""
    sums = tiled_producer(state, stage)
    if sums is None or Role.PARTIAL in sums.roles:
        return None
    found, lanes = contraction_of(sums.op), state.target.lanes(lane_bytes(sums.op))
    if found is None or lanes == 1 or prod(axis.extent for axis in found.rows) >= lanes:
        return None
    terms = _terms_together(found, lanes)
    return None if terms is None or not _lies_apart(sums, found) else (sums, terms, found.rows)


def _terms_together(found: Contraction, lanes: int) -> Axis | None:
    """An axis of a vector of terms at least, along which both operands are contiguous."""
    for axis in found.terms:
        together = found.lhs.is_contiguous(axis) and found.rhs.is_contiguous(axis)
        if together and axis.extent >= lanes:
            return axis
    return None


def _lies_apart(sums: StagePlan, found: Contraction) -> bool:
    """Whether a vector of results would be gathered: a constant is packed instead."""
    source, vector = found.rhs.load.tensor.op, vector_axis(sums.op)
    packed = isinstance(source, Placeholder) and source.constant
    return vector is not None and not packed and not found.rhs.is_contiguous(vector)


def _host_steps(state: State, host: StagePlan, rows: list[Axis]) -> tuple[list[Step], LoopId]:
    """The loops of the consumer, and the one in which the sums are computed.  Rows are walked
    inside: they share what lies apart.
    """
    vector = vector_axis(host.op)
    assert vector is not None
    lanes = lanes_for(vector, host.op, state.target)
    around = [axis for axis in host.op.axes if axis is not vector and axis not in rows]
    parallel = [host.loop(axis) for axis in (*around, vector)]
    at, lane = host.loop(vector, 1), host.loop(vector, 2)
    order = (*parallel, *(host.loop(axis) for axis in rows), at, lane)
    return [
        Split(host.id, host.axis(vector), (host.decision(vector, 1), lanes)),
        Reorder(host.id, order),
        *(Annotate(host.id, loop, LoopKind.PARALLEL.value) for loop in parallel),
        Annotate(host.id, lane, LoopKind.VECTORIZED.value),
    ], at


def _partial_steps(partial: StagePlan) -> list[Step]:
    """``for k, unrolled results, vector p``."""
    lane = partial.loop(partial.op.axes[-1])
    results = [partial.loop(axis) for axis in partial.op.axes[:-1]]
    terms = [partial.loop(axis) for axis in partial.op.reduce_axes]
    return [
        Reorder(partial.id, (*terms, *results, lane)),
        *(Annotate(partial.id, loop, LoopKind.UNROLLED.value) for loop in results),
        Annotate(partial.id, lane, LoopKind.VECTORIZED.value),
    ]


def _combined_steps(combined: StagePlan) -> list[Step]:
    """``unrolled results, for p``."""
    results = [combined.loop(axis) for axis in combined.op.axes]
    parts = [combined.loop(axis) for axis in combined.op.reduce_axes]
    return [
        Reorder(combined.id, (*results, *parts)),
        *(Annotate(combined.id, loop, LoopKind.UNROLLED.value) for loop in results),
    ]
