"""Rows together: a few rows at a time, where something is reduced over each of them.

    for i, for j     ->     parallel i.0, for i.1, for j.0, unrolled i.2, unrolled j.1, vector j.2

A sum or a maximum waits for its last term, and what reads it waits for both.  With a few rows at a
time there is always something to do, and each row adds to registers of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Final

from sketch.analysis.access import needs_tiling
from sketch.lang.expr import Axis
from sketch.nest.lanes import lane_bytes
from sketch.nest.loopnest import LoopKind
from sketch.rules.patterns import lanes_for, vector_axis
from sketch.rules.rfactor import wants_lanes
from sketch.rules.rule import State, Verdict
from sketch.rules.simple import schedule_simply
from sketch.schedule.program import StagePlan, operations_read
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Annotate, Reorder, Split
from sketch.target.target import Target

# Rows of which stages are computed at a time.
_TOGETHER: Final = (4, 2)
# Arrays whose rows share the cache: what is kept of a row lies in what is written.
_ARRAYS: Final = 3
# Groups of rows for each thread: with fewer, the last ones would leave threads idle.
_LEAST_GROUPS: Final = 4


@dataclass(frozen=True, slots=True)
class ScheduleRowsTogether:
    """A root stage, some rows of it at a time, where it reads what is reduced over these rows."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Stages of many rows that read, through others, a reduction over contiguous elements."""
        if stage.attach is not None or stage.op.reduce is not None or stage.op.store is not None:
            return Verdict.SKIP
        return Verdict.APPLY if _together(state, stage) > 1 else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state; what the rows need is still to be scheduled."""
        name, op, vector = stage.id, stage.op, vector_axis(stage.op)
        rows = rows_of(stage)
        assert vector is not None
        row = rows[-1]
        factors = (stage.decision(row, 1), _together(state, stage))
        lanes = (stage.decision(vector, 1), lanes_for(vector, op, state.target))
        shared, some = [stage.loop(axis) for axis in rows], stage.loop(row, 2)
        copies, lane = stage.loop(vector, 1), stage.loop(vector, 2)
        order = (*shared, stage.loop(row, 1), stage.loop(vector), some, copies, lane)
        kinds = {
            **dict.fromkeys(shared, LoopKind.PARALLEL),
            some: LoopKind.UNROLLED,
            copies: LoopKind.UNROLLED,
            lane: LoopKind.VECTORIZED,
        }
        scheduled = state.then(
            Split(name, stage.axis(row), factors),
            Split(name, stage.axis(vector), lanes),
            Reorder(name, order),
            *(Annotate(name, loop, kind.value) for loop, kind in kinds.items()),
        )
        return (scheduled.done([name]),)


def _together(state: State, stage: StagePlan) -> int:
    """How many rows at a time; 1 where nothing is reduced over rows, or there are few of them."""
    vector, rows = vector_axis(stage.op), rows_of(stage)
    if vector is None or not rows:
        return 1
    count = prod(axis.extent for axis in rows)
    if not _reads_reduced_rows(state, stage, count):
        return 1
    fit = rows_that_fit(state.target, lane_bytes(stage.op) * vector.extent, rows[-1].extent)
    return fit if count >= _LEAST_GROUPS * fit * state.target.threads else 1


def rows_that_fit(target: Target, row_bytes: int, rows: int) -> int:
    """How many of ``rows`` rows at a time: what is read of them and what is written shares the
    first cache with what comes next.
    """
    room = target.l1_bytes // (_ARRAYS * row_bytes)
    return next((n for n in _TOGETHER if n <= min(room, rows)), 1)


def _reads_reduced_rows(state: State, stage: StagePlan, rows: int) -> bool:
    """Whether ``stage`` reads, through others that are not scheduled, a reduction in lanes that has
    a result for each of as many rows.
    """
    pending, seen = list(operations_read(stage.op)), set[int]()
    while pending:
        op = pending.pop()
        plan = state.program.plan_of(op)
        if plan is None or plan.id in state.scheduled or id(op) in seen:
            continue
        seen.add(id(op))
        if plan.op.reduce is not None:
            if needs_tiling(plan.op):
                return False
            points = prod(axis.extent for axis in plan.op.axes)
            if points == rows and wants_lanes(plan.op, state.target):
                return True
        pending += operations_read(plan.op)
    return False


def schedule_in_rows(state: State, name: StageId, host: StagePlan) -> State:
    """Schedule a stage that is computed inside a loop of ``host``, for as many rows as that has at
    a time: what is one number for each row needs no vectors, which would be of too many rows.
    """
    if not has_rows(host):
        return schedule_simply(state, name)
    stage = state.program.stage(name)
    points = prod(axis.extent for axis in stage.op.axes)
    if points != prod(axis.extent for axis in rows_of(host)):
        return rows_inside(schedule_simply(state, name), name, host)
    rows = [stage.loop(axis) for axis in stage.op.axes]
    terms = [stage.loop(axis) for axis in stage.op.reduce_axes]
    unrolled = (Annotate(name, loop, LoopKind.UNROLLED.value) for loop in rows)
    return state.then(Reorder(name, (*rows, *terms)), *unrolled).done([name])


def rows_inside(state: State, name: StageId, host: StagePlan) -> State:
    """The loops of rows unrolled, and inside those that walk along them; where ``host`` has some
    rows at a time, and the stage as many rows.
    """
    stage = state.program.stage(name)
    rows = rows_of(stage)
    others = prod(axis.extent for axis in rows_of(host))
    split = LoopKind.UNROLLED in host.kinds.values()
    if not split or prod(axis.extent for axis in rows) != others:
        return state
    own = [stage.loop(axis) for axis in rows]
    loops = [loop for loop in stage.loops() if loop not in own]
    loops = [*loops[:-1], *own, loops[-1]] if is_vectorized(stage) else [*own, *loops]
    return state.then(
        Reorder(name, tuple(loops)),
        *(Annotate(name, loop, LoopKind.UNROLLED.value) for loop in own),
    )


def has_rows(host: StagePlan) -> bool:
    """Whether a stage has a fixed number of rows at a time; tiles have as many as decided."""
    vector = vector_axis(host.op)
    unrolled = (loop for loop, kind in host.kinds.items() if kind is LoopKind.UNROLLED)
    return any(
        loop.level > 0
        and host.loop_axis(loop) is not vector
        and isinstance(host.splits[loop.axis][loop.level - 1], int)
        for loop in unrolled
    )


def rows_of(stage: StagePlan) -> list[Axis]:
    """Its axes but for that of the vectors, if it has any."""
    vector = vector_axis(stage.op) if not stage.order or is_vectorized(stage) else None
    return [axis for axis in stage.op.axes if axis is not vector]


def is_vectorized(stage: StagePlan) -> bool:
    """Whether the innermost loop of a stage is lanes."""
    return stage.kinds.get(stage.loops()[-1]) is LoopKind.VECTORIZED
