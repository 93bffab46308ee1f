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
from sketch.rules.tiling import tiled_producer
from sketch.schedule.program import StagePlan
from sketch.schedule.stage import Role
from sketch.schedule.steps import Rfactor
from sketch.target.target import Target

# Chunks per thread of a reduction that is split for threads: enough to even out their speeds.
_CHUNKS_PER_THREAD = 4


@dataclass(frozen=True, slots=True)
class AddRfactor:
    """Partial results per lane where the operands are contiguous along the reduction, and per
    chunk where there are fewer points than threads, or too few to fill vectors on all threads.

    A reduction that something goes on with element by element is split before that is scheduled:
    what is left of the reduction is fused with it then.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Reductions that neither tiling nor plain vectors serve well, and what reads them."""
        found = _to_split(state, stage)
        if found is None:
            return Verdict.SKIP
        chunked = _chunks(found, state.target) is not None
        if chunked and _only_chunks(found.op, state.target):
            return Verdict.APPLY_AND_STOP
        if not wants_lanes(found.op, state.target):
            return Verdict.APPLY if chunked else Verdict.SKIP
        return Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """By chunks, by lanes, or either; all new stages are still to be scheduled."""
        split = _to_split(state, stage)
        assert split is not None
        op, target = split.op, state.target
        found: list[State] = []
        axis = _chunks(split, target)
        if axis is not None:
            parts = min(axis.extent, _CHUNKS_PER_THREAD * target.threads)
            found.append(state.then(Rfactor(split.id, split.axis(axis), parts, interleave=False)))
        if axis is None or (wants_lanes(op, target) and not _only_chunks(op, target)):
            axis = _lanes(op, target)
            assert axis is not None
            parts = _vector_lanes(op, target)
            found.append(state.then(Rfactor(split.id, split.axis(axis), parts, interleave=True)))
        return tuple(found)


def _to_split(state: State, stage: StagePlan) -> StagePlan | None:
    """The stage, if it reduces, or the reduction that it would be fused with first.

    None: there is none, or it is split already, or it is a product, whose tiles are to be fused.
    """
    found = stage
    if stage.op.reduce is None:
        producer = tiled_producer(state, stage)
        if producer is None or needs_tiling(producer.op):
            return None
        found = producer
    return None if Role.COMBINE in found.roles else found


def wants_lanes(op: Compute, target: Target) -> bool:
    """Whether neither tiling nor plain vectors serve the reduction well, and lanes do."""
    plain = needs_tiling(op) or is_vector_friendly(op)
    return not plain and _lanes(op, target) is not None


def _only_chunks(op: Compute, target: Target) -> bool:
    """Whether a nest without chunks leaves threads idle for sure, and for long: there are fewer
    points than threads, or one vector of them and more to read than a core's own cache holds.
    """
    points = _points(op)
    read_bytes = lane_bytes(op) * points * prod(axis.extent for axis in op.reduce_axes)
    one_vector = points <= _vector_lanes(op, target) and wants_lanes(op, target)
    return points < target.threads or (one_vector and read_bytes > target.l2_bytes)


def _points(op: Compute) -> int:
    return prod(axis.extent for axis in op.axes)


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


def _chunks(stage: StagePlan, target: Target) -> Axis | None:
    """The axis to reduce in chunks on several threads, if there is much to reduce to few points.

    The longest one, but for that of the lanes where another has chunks enough: what is contiguous
    stays whole.
    """
    op = stage.op
    # Chunks of chunks would be for the same threads.
    served = Role.PARTIAL in stage.roles and _points(op) >= target.threads
    if target.threads == 1 or served:
        return None
    lanes = _vector_lanes(op, target)
    chunks = _CHUNKS_PER_THREAD * target.threads
    reduced = prod(axis.extent for axis in op.reduce_axes)
    if _points(op) >= target.threads * lanes or reduced < chunks * lanes:
        return None
    contiguous = _lanes(op, target)
    others = [a for a in op.reduce_axes if a is not contiguous and a.extent >= chunks]
    axis = longest(tuple(others)) if others else longest(op.reduce_axes)
    return axis if axis.extent >= target.threads else None
