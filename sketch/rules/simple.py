"""The schedule of stages that need no multi-level tiling: parallel outside, vectors inside."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from sketch.analysis.access import stage_loads
from sketch.lang.expr import Axis, Load
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import LoopKind
from sketch.rules.locations import standing_axes
from sketch.rules.patterns import coefficient_of, lanes_for, vector_axis
from sketch.rules.rule import State, Verdict
from sketch.schedule.loop import LoopId
from sketch.schedule.program import StagePlan
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Annotate, Factor, Reorder, Split, Step

_MIN_LANES = 2
# Rows for each thread from which on it does not matter that rows are not split among threads.
_MANY_ROWS = 64


@dataclass(frozen=True, slots=True)
class ScheduleSimply:
    """Before: ``for i, for j``; after: ``parallel i.0, i.1, j.0, unrolled j.1, vector j.2``."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Every stage that no other rule took."""
        return Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state; two for stages with several axes but few rows (all outer loops parallel, or
        rows only).
        """
        op = stage.op
        rows = schedule_simply(state, stage.id, rows=True)
        several = len([a for a in op.axes if a.extent > 1]) > 1
        number = prod(a.extent for a in op.axes if a is not vector_axis(op))
        if not several or op.reduce is not None or number >= _MANY_ROWS * state.target.threads:
            return (rows,)
        return (rows, schedule_simply(state, stage.id, rows=False))


def schedule_simply(state: State, called: StageId, rows: bool = True) -> State:
    """Split, order and annotate the loops of one stage.

    ``rows``: the loops of the vector axis stay inside all others, so that stages computed per row
    can be attached around them; otherwise its outer loop is parallel too.
    """
    stage = state.program.stage(called)
    op = stage.op
    vector = _simd_axis(op)
    if vector is not None and vector in standing_axes(state.program, stage):
        vector = None
    lanes = 1 if vector is None else lanes_for(vector, op, state.target)
    outer = [a for a in op.axes if a is not vector]
    steps: list[Step] = []
    order = [stage.loop(a) for a in outer]
    parallel = list(order)
    root = stage.attach is None
    turned = _turned_axis(op, vector) if root else None
    # Few rows may all be one block, which no thread has to wait for.
    last_rows = [a for a in outer if root and a.extent > 1][-1:]
    split = [a for a in outer if a is turned or a in last_rows]
    steps += [Split(called, stage.axis(a), (stage.decision(a, 1),)) for a in split]
    order += [stage.loop(a, 1) for a in split if a is not turned]
    if vector is None:
        order += [stage.loop(a) for a in op.reduce_axes]
    else:
        outside = (stage.decision(vector, 1),) if root else ()
        factors: tuple[Factor, ...] = (*outside, lanes)
        steps.append(Split(called, stage.axis(vector), factors))
        order += _vector_loops(stage, vector, len(factors))
        if turned is not None:
            order.insert(order.index(stage.loop(vector)) + 1, stage.loop(turned, 1))
        if root and (not rows or not outer):
            order.remove(stage.loop(vector))
            order.insert(len(parallel), stage.loop(vector))
            parallel.append(stage.loop(vector))
    steps.append(Reorder(called, tuple(order)))
    if root:
        steps += [Annotate(called, loop, LoopKind.PARALLEL.value) for loop in parallel]
    if vector is not None:
        last = stage.loop(vector, len(factors))
        steps.append(Annotate(called, last, LoopKind.VECTORIZED.value))
        if root:
            unrolled = stage.loop(vector, len(factors) - 1)
            steps.append(Annotate(called, unrolled, LoopKind.UNROLLED.value))
    return state.then(*steps).done([called])


def _turned_axis(op: Compute, vector: Axis | None) -> Axis | None:
    """The axis along which a stage that turns an array reads neighbours: where a vector takes its
    elements from as many lines of the cache, the next elements of all these lines come next.
    """
    if vector is None or op.reduce is not None:
        return None
    for load in stage_loads(op):
        last = _last_of_several(load)
        along = [coefficient_of(load, dim, vector, op) for dim in range(last + 1)]
        if not any(along) or along[last] != 0:
            continue
        for axis in op.axes:
            if axis.extent > 1 and coefficient_of(load, last, axis, op) == 1:
                return axis
    return None


def _last_of_several(load: Load) -> int:
    """The last dimension of several elements: what lies behind it has no neighbours."""
    several = [dim for dim, extent in enumerate(load.tensor.shape) if extent > 1]
    return several[-1] if several else len(load.indices) - 1


def _vector_loops(stage: StagePlan, vector: Axis, levels: int) -> list[LoopId]:
    """Outer vector loop, reduce loops, then the loops of one register tile."""
    return [
        stage.loop(vector),
        *(stage.loop(a) for a in stage.op.reduce_axes),
        *(stage.loop(vector, level) for level in range(1, levels + 1)),
    ]


def _simd_axis(op: Compute) -> Axis | None:
    """The axis to vectorise, unless it would gather every operand of a reduction."""
    axis = vector_axis(op)
    if axis is None or axis.extent < _MIN_LANES:
        return None
    return axis if op.reduce is None or is_vector_friendly(op) else None


def is_vector_friendly(op: Compute) -> bool:
    """Whether each read that moves with the vector axis moves by one element."""
    axis = vector_axis(op)
    if axis is None:
        return False
    for load in stage_loads(op):
        last = len(load.indices) - 1
        for dim in range(len(load.indices)):
            coefficient = coefficient_of(load, dim, axis, op)
            if coefficient not in ((0, 1) if dim == last else (0,)):
                return False
    return True
