"""The schedule of reductions that scatter: terms one after another, each to where data say.

    parallel d.0, e, r = place[e], unrolled d.1, vector d.2

Terms of different elements of ``d`` meet nowhere, so threads share these.  Where there are too few,
and many terms for each element, each thread has results of its own of a part of the terms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Final

from sketch.analysis.access import affine_index, stage_loads
from sketch.analysis.scattering import scattered_axes, scattered_extent
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Axis, Load
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import LoopKind
from sketch.rules.patterns import longest, vector_axis
from sketch.rules.rule import State, Verdict
from sketch.schedule.loop import LoopId
from sketch.schedule.program import StagePlan
from sketch.schedule.stage import Role
from sketch.schedule.steps import Annotate, Reorder, Split, SplitReduce, Step
from sketch.target.target import Target

# Terms for each element from which on results of one's own cost less than they save: they are made
# empty, and added up.
_LEAST_TERMS: Final = 2


@dataclass(frozen=True, slots=True)
class ScheduleScatter:
    """Before: ``for r, for d, for e: if place[e] == r``; after: no loop over ``r``.

    Eager: what reads the result must not compute it for a tile at a time.
    """

    eager: ClassVar[bool] = True

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Reductions whose terms each belong to one element along some axis."""
        done = stage.id in state.scheduled or stage.attach is not None
        return Verdict.APPLY_AND_STOP if scattered_axes(stage.op) and not done else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state; what adds up the parts of the threads is still to be scheduled."""
        target = state.target
        if Role.PARTIAL not in stage.roles and _wants_parts(stage.op, target):
            axis = longest(stage.op.reduce_axes)
            before = {plan.id for plan in state.program.stages}
            state = state.then(SplitReduce(stage.id, stage.axis(axis), target.threads))
            (stage,) = (plan for plan in state.program.stages if plan.id not in before)
        return (state.then(*_steps(stage, target)).done([stage.id]),)


def _wants_parts(op: Compute, target: Target) -> bool:
    """Whether too few elements meet nowhere for the threads, and there are terms for all."""
    vector = _lane_axis(op)
    lanes = 1 if vector is None else _lanes(vector, op, target)
    apart = prod(a.extent for a in _axes_apart(op)) // lanes
    terms = prod(a.extent for a in op.reduce_axes)
    longest_axis = longest(op.reduce_axes)
    return (
        apart < target.threads <= longest_axis.extent
        and terms >= _LEAST_TERMS * scattered_extent(op)
    )


def _steps(stage: StagePlan, target: Target) -> Iterator[Step]:
    op, called = stage.op, stage.id
    vector = _lane_axis(op)
    shared = [stage.loop(axis) for axis in _axes_apart(op) if axis is not vector]
    inside = [stage.loop(op.axes[position]) for position in sorted(scattered_axes(op))]
    if vector is not None:
        together, lanes = _share_places(op, vector), _lanes(vector, op, target)
        most = stage.decision(vector, 1) if together else _run(vector, lanes, shared, target)
        yield Split(called, stage.axis(vector), (most, lanes))
        shared.append(stage.loop(vector))
        inside += [stage.loop(vector, 1), stage.loop(vector, 2)]
    reduced = (stage.loop(axis) for axis in op.reduce_axes)
    yield Reorder(called, (*shared, *reduced, *inside))
    for loop in shared:
        yield Annotate(called, loop, LoopKind.PARALLEL.value)
    if vector is not None:
        kind = LoopKind.VECTORIZED if together else LoopKind.UNROLLED
        yield Annotate(called, stage.loop(vector, 2), kind.value)
        if together:
            yield Annotate(called, stage.loop(vector, 1), LoopKind.UNROLLED.value)


def _run(axis: Axis, lanes: int, others: Collection[LoopId], target: Target) -> int:
    """Vectors along an axis of a thread that walks all of it that it can: neighbours go to places
    far apart, and short runs of them would come to each line again and again.
    """
    vectors = -(-axis.extent // lanes)
    return vectors if others else -(-vectors // target.threads)


def _axes_apart(op: Compute) -> tuple[Axis, ...]:
    """The axes whose elements share no term."""
    scattered = scattered_axes(op)
    return tuple(axis for position, axis in enumerate(op.axes) if position not in scattered)


def _lane_axis(op: Compute) -> Axis | None:
    """The innermost axis, where terms along it lie together."""
    axis = vector_axis(op)
    if axis is None or axis not in _axes_apart(op):
        return None
    return axis if all(_is_along(load, axis, op) for load in stage_loads(op)) else None


def _lanes(axis: Axis, op: Compute, target: Target) -> int:
    """SIMD lanes along ``axis`` of what differs from lane to lane: places do not."""
    moving = (load.dtype for load in stage_loads(op) if any(axis in walk(i) for i in load.indices))
    width = max(map(size_of, (*op.output_dtypes, *moving)))
    return min(target.lanes(width), axis.extent)


def _share_places(op: Compute, axis: Axis) -> bool:
    """Whether all terms along ``axis`` go to one place."""
    return all(axis not in walk(place) for place in scattered_axes(op).values())


def _is_along(load: Load, axis: Axis, op: Compute) -> bool:
    """Whether a step along ``axis`` is one element of the last dimension, or none."""
    for dim, index in enumerate(load.indices):
        if axis not in walk(index):
            continue
        form = affine_index(index, op.all_axes)
        last = dim == len(load.indices) - 1
        if not last or form is None or form[0].get(axis, 0) not in (0, 1):
            return False
    return True
