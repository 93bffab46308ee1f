"""Compute location: attach a stage inside its consumers' nest, or give it a nest of its own."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from sketch.analysis.access import needs_tiling, stage_loads
from sketch.lang.dtypes import size_of
from sketch.lang.tensor import Compute
from sketch.nest.lanes import lane_bytes
from sketch.rules.locations import Location, candidate_locations
from sketch.rules.patterns import MOST_READS, is_output
from sketch.rules.rows_together import has_rows, schedule_in_rows
from sketch.rules.rule import State, Verdict
from sketch.rules.simple import schedule_simply
from sketch.schedule.program import Program, StagePlan
from sketch.schedule.stage import Role
from sketch.schedule.steps import ComputeAt
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class ComputeLocation:
    """One state per location: the register-tile loop, the L2-tile loop, the root.

    A reduction over rows (softmax's maximum) is attached at the consumer's row loop, so that one
    pass handles a block of rows.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Stages without data reuse whose consumers all run in one nest."""
        if is_output(state.program, stage) or stage.op.store is not None:
            return Verdict.SKIP
        if stage.op.reduce is not None and needs_tiling(stage.op):
            return Verdict.SKIP
        found = candidate_locations(state.program, stage)
        return Verdict.APPLY_AND_STOP if found else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """Attached states, deepest first; the root too, for a stage that does not reduce (unless
        its host has some rows at a time), and where the loops around the stage have one trip, so
        that nothing would run in parallel, or for partial sums too few to give every thread a
        vector of results.
        """
        locations = candidate_locations(state.program, stage)
        if stage.op.reduce is not None:
            locations = locations[:1]
        elif len(stage_loads(stage.op)) > MOST_READS:
            # Too expensive to compute for every register tile again; and for every larger tile
            # too, where all of it stays in the caches.
            locations = () if _fits_caches(stage.op, state.target) else locations[1:]
        states = [_attached(state, stage, location) for location in locations]
        alone = stage.op.reduce is None or not _narrows(state.program, locations[0])
        if locations and has_rows(state.program.stage(locations[0][0])):
            alone = False  # its rows are few so that what they need is still in the first cache
        if alone or _for_threads(state, stage, locations[0]):
            states.append(schedule_simply(state, stage.id))
        return tuple(states)


def _attached(state: State, stage: StagePlan, location: Location) -> State:
    target, loop = location
    attached = state.then(ComputeAt(stage.id, target, loop))
    return schedule_in_rows(attached, stage.id, state.program.stage(target))


def _narrows(program: Program, location: Location) -> bool:
    """Whether the loops around a location have more than one trip together."""
    host = program.stage(location[0])
    around = host.loops()[: host.loops().index(location[1]) + 1]
    return any(host.loop_axis(loop).extent > 1 for loop in around)


def _for_threads(state: State, stage: StagePlan, location: Location) -> bool:
    """Whether a stage of partial sums has points for all threads, and its host has not."""
    host = state.program.stage(location[0]).op
    wanted = state.target.threads * state.target.lanes(lane_bytes(host))
    points, own = (prod(axis.extent for axis in op.axes) for op in (host, stage.op))
    threads = state.target.threads
    return Role.PARTIAL in stage.roles and threads > 1 and points < wanted and own >= threads


def _fits_caches(op: Compute, target: Target) -> bool:
    size = prod(op.shape) * sum(size_of(dtype) for dtype in op.output_dtypes)
    return size <= target.l2_bytes * target.threads
