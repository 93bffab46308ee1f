"""Rfactor: turn part of a reduction into a spatial axis, for lanes or for threads."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from sketch.analysis.access import needs_tiling, stage_loads
from sketch.lang.expr import Axis
from sketch.lang.tensor import Compute
from sketch.nest.lanes import lane_bytes
from sketch.rules.patterns import coefficient_of, longest
from sketch.rules.rule import State, Verdict
from sketch.rules.simple import is_vector_friendly
from sketch.schedule.program import Role, StagePlan
from sketch.schedule.steps import Rfactor
from sketch.target.target import Target

# Chunks per thread of a reduction that is split for threads: enough to even out their speeds.
_CHUNKS_PER_THREAD = 4


@dataclass(frozen=True, slots=True)
class AddRfactor:
    """Partial results per lane where the operands are contiguous along the reduction, and per
    chunk where there are fewer points than threads.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Reductions that neither tiling nor plain vectors serve well."""
        op = stage.op
        if op.reduce is None or Role.COMBINE in stage.roles:
            return Verdict.SKIP
        if _chunks(op, state.target) is not None:
            return Verdict.APPLY_AND_STOP
        if needs_tiling(op) or is_vector_friendly(op):
            return Verdict.SKIP
        return Verdict.SKIP if _lanes(op, state.target) is None else Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state; both new stages are still to be scheduled."""
        name = stage.op.name
        axis = _chunks(stage.op, state.target)
        if axis is not None:
            parts = min(axis.extent, _CHUNKS_PER_THREAD * state.target.threads)
            return (state.then(Rfactor(name, axis.name, parts, interleave=False)),)
        axis = _lanes(stage.op, state.target)
        assert axis is not None
        parts = _vector_lanes(stage.op, state.target)
        return (state.then(Rfactor(name, axis.name, parts, interleave=True)),)


def _vector_lanes(op: Compute, target: Target) -> int:
    return target.lanes(lane_bytes(op))


def _lanes(op: Compute, target: Target) -> Axis | None:
    """The reduce axis along which operands are contiguous, if it fills a vector."""
    lanes = _vector_lanes(op, target)
    for axis in op.reduce_axes:
        contiguous = any(
            coefficient_of(load, len(load.indices) - 1, axis, op) == 1
            for load in stage_loads(op)
            if load.indices
        )
        if contiguous and axis.extent >= lanes > 1:
            return axis
    return None


def _chunks(op: Compute, target: Target) -> Axis | None:
    """The longest reduce axis, if there are fewer points than threads and much to reduce."""
    axis = longest(op.reduce_axes)
    points = prod(a.extent for a in op.axes)
    enough = axis.extent >= _CHUNKS_PER_THREAD * target.threads * _vector_lanes(op, target)
    return axis if points < target.threads and enough else None
