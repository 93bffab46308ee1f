"""Facts about stages of a program that several rules ask for."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import takewhile
from math import prod
from typing import Final

from sketch.analysis.access import affine_index, needs_tiling, reads_elementwise, stage_loads
from sketch.lang.expr import Axis, Load
from sketch.lang.kept import kept
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute, Operation
from sketch.nest.lanes import lane_bytes
from sketch.nest.loopnest import LoopKind
from sketch.schedule.loop import LoopId
from sketch.schedule.program import Program, StagePlan, operations_read
from sketch.schedule.stage import StageId
from sketch.target.target import Target

# Elements that a stage may read and still be computed again for each use by a reduction.
MOST_READS: Final = 3
# Elements beside the batch from which on a register tile needs nothing of the batch.
_LEAST_TILED: Final = 1024


def is_output(program: Program, plan: StagePlan) -> bool:
    """Whether the stage computes an output of the DAG."""
    return program.is_output(plan.id)


def fusable_consumer(program: Program, plan: StagePlan) -> StagePlan | None:
    """The only consumer of a stage, where it reads the stage element by element."""
    consumers = program.consumers(plan.op)
    if len(consumers) != 1 or is_output(program, plan):
        return None
    return consumers[0] if reads_elementwise(consumers[0].op, plan.op) else None


def hosts_reduction(program: Program, plan: StagePlan) -> bool:
    """Whether a stage is the last of an element-wise chain that starts at a reduction: the one
    whose tiles the reduction should be fused with, so not one to inline.  What rows are reduced of
    is the last, too, though something else goes on with its elements.
    """
    consumers = program.consumers(plan.op)
    if all(reads_elementwise(c.op, plan.op) for c in consumers):
        return False
    return any(p.op.reduce is not None and plan in _followers(program, p) for p in program.stages)


def _followers(program: Program, plan: StagePlan) -> Iterator[StagePlan]:
    """The stages of the element-wise chain after a stage, each the only consumer of the last."""
    follower = fusable_consumer(program, plan)
    while follower is not None:
        yield follower
        follower = fusable_consumer(program, follower)


def is_made_of_product(program: Program, op: Operation, scheduled: Container[StageId] = ()) -> bool:
    """Whether ``op`` is a reduction with data reuse that is not scheduled, or reads one through
    other stages that are not.
    """
    pending, seen = [op], set[StageId]()
    while pending:
        plan = program.plan_of(pending.pop())
        if plan is None or plan.id in scheduled or plan.id in seen:
            continue
        seen.add(plan.id)
        if plan.op.reduce is not None and needs_tiling(plan.op):
            return True
        pending += operations_read(plan.op)
    return False


def coefficient_of(load: Load, dim: int, axis: Axis, op: Compute) -> int | None:
    """Coefficient of ``axis`` in one index of a load; None where the index is not affine.

    Args:
        load: a read of a tensor.
        dim: which of its indices.
        axis: whose coefficient.
        op: the stage that reads.
    """
    form = affine_index(load.indices[dim], op.all_axes)
    return None if form is None else form[0].get(axis, 0)


def vector_axis(op: Compute) -> Axis | None:
    """The axis to vectorise: the last one with more than one element (unit stride when stored)."""
    wide = [axis for axis in op.axes if axis.extent > 1]
    return wide[-1] if wide else None


def lanes_for(axis: Axis, op: Compute, target: Target) -> int:
    """SIMD lanes along ``axis``: a full register, or the axis where that is shorter."""
    return min(target.lanes(lane_bytes(op)), axis.extent)


def batch_positions(op: Compute, least: int = _LEAST_TILED) -> frozenset[int]:
    """Positions of the axes that every operand of a reduction depends on, so that tiling them
    reuses nothing, where the other axes leave ``least`` elements to tile.
    """
    batch = _shared_positions(op)
    rest = prod(axis.extent for n, axis in enumerate(op.axes) if n not in batch)
    return batch if rest >= least else frozenset()


@kept  # asked for again and again by all rules of all sketches
def _shared_positions(op: Compute) -> frozenset[int]:
    operands = [set(_axes_of(load)) for load in stage_loads(op)]
    if len(operands) < 2:
        return frozenset()
    shared = set.intersection(*operands)
    last = vector_axis(op)
    return frozenset(n for n, axis in enumerate(op.axes) if axis in shared and axis is not last)


def loops_in_batch(plan: StagePlan) -> list[LoopId]:
    """The loops of blocks that a thread walks for each element of the batch that threads share;
    none where threads share the blocks.
    """
    loops, vector = plan.loops(), vector_axis(plan.op)
    parallel = [loop for loop in loops if plan.kinds.get(loop) is LoopKind.PARALLEL]
    shared = {plan.loop_axis(loop) for loop in parallel}
    if not parallel or any(x.level and plan.loop_axis(x) in shared for x in loops):
        return []
    inside = loops[len(parallel) :]
    return [*takewhile(lambda x: x.level == 0 and plan.loop_axis(x) is not vector, inside)]


def _axes_of(load: Load) -> Iterator[Axis]:
    return (node for index in load.indices for node in walk(index) if isinstance(node, Axis))


def longest(axes: tuple[Axis, ...]) -> Axis:
    """The axis of the largest extent (the last of several)."""
    return max(reversed(axes), key=lambda axis: axis.extent)
