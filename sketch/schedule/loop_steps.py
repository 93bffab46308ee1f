"""Steps on the loops of stages: how they are split, ordered, run and attached; panels for them."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from sketch.errors import ScheduleError, quoted
from sketch.nest.loopnest import LoopKind
from sketch.schedule.decision import DecisionId
from sketch.schedule.program import Program, operations_read, root_host
from sketch.schedule.stage import InputId
from sketch.schedule.step_fields import is_count
from sketch.schedule.steps import (
    BLOCK_ROWS,
    TILE_COUNTS,
    TILE_LAYOUTS,
    TURNED_PIECES,
    Annotate,
    BlockOrder,
    ComputeAt,
    Pack,
    Reorder,
    SharedTiles,
    Split,
    Tensorize,
)

# Trips of the tiles of an axis, for each of its elements.  Vectors, and the threads of a GPU block,
# may be far wider than an axis; beyond that a loop nest would only count.
_MOST_PADDING: Final = 4096
# The loops of a tensor unit belong together, and have a step of their own.
_ANNOTATED: Final = tuple(kind for kind in LoopKind if kind is not LoopKind.TENSOR)


def split(program: Program, step: Split) -> Program:
    """Split an axis in nested loops; raises ScheduleError for factors that it cannot have."""
    plan = program.stage(step.stage)
    axis = plan.axis_at(step.axis)
    numbers = [factor for factor in step.factors if not isinstance(factor, DecisionId)]
    for factor in numbers:
        if not is_count(factor):
            where = f"factor of axis {axis.name} of {plan.op.name}"
            raise ScheduleError(f"{quoted(factor)} is no positive whole number", where)
    if prod(numbers) > _MOST_PADDING * axis.extent:
        raise ScheduleError(
            f"tiles of {prod(numbers)} are far longer than axis {axis.name} of {plan.op.name}, "
            f"which has {axis.extent}"
        )
    if step.axis in plan.splits or plan.order:
        raise ScheduleError(
            f"axis {axis.name} of {plan.op.name} is split twice, or after a reorder"
        )
    return program.with_stage(replace(plan, splits={**plan.splits, step.axis: step.factors}))


def reorder(program: Program, step: Reorder) -> Program:
    """Order the loops of a stage; raises ScheduleError unless each is there once."""
    plan = program.stage(step.stage)
    if sorted(step.order) != sorted(plan.loops()):
        raise ScheduleError(
            f"the order of {plan.op.name} must list its loops {plan.labels()}, got {step.order}"
        )
    return program.with_stage(replace(plan, order=step.order))


def compute_at(program: Program, step: ComputeAt) -> Program:
    """Compute a stage inside a loop of another; raises ScheduleError where it cannot be."""
    plan = program.stage(step.stage)
    target = program.stage(step.target)
    target.check_loop(step.loop)
    if program.is_output(plan.id):
        raise ScheduleError(
            f"stage {plan.op.name} is an output and cannot be computed inside {target.op.name}",
            hint="outputs are computed at the root; add a cache_write and attach its stage",
        )
    if root_host(program, target, inside=plan.id) is plan:
        raise ScheduleError(
            f"stage {plan.op.name} is computed inside {target.op.name}, which is inside it",
            hint="attach a stage to one of its consumers",
        )
    return program.with_stage(replace(plan, attach=(step.target, step.loop)))


def annotate(program: Program, step: Annotate) -> Program:
    """Say how a loop is executed; raises ScheduleError for a loop or a kind that is none."""
    plan = program.stage(step.stage)
    plan.check_loop(step.loop)
    kind = next((kind for kind in _ANNOTATED if kind.value == step.execution), None)
    if kind is None:
        raise ScheduleError(
            f"a loop cannot be {step.execution!r}",
            f"loop {plan.labels([step.loop])} of stage {plan.op.name}",
            f"one of {', '.join(kind.value for kind in _ANNOTATED)}",
        )
    return program.with_stage(replace(plan, kinds={**plan.kinds, step.loop: kind}))


def pack(program: Program, step: Pack) -> Program:
    """Lay a tensor out in panels; raises ScheduleError for one whose layout is not ours."""
    reader = program.stage(step.reader)
    for loop in step.loops:
        reader.check_loop(loop)
    packed = program.operation(step.tensor)
    if packed not in operations_read(reader.op):
        raise ScheduleError(f"stage {reader.op.name} does not read {packed.name!r}, to be packed")
    if not isinstance(step.dim, int) or not 0 <= step.dim < len(packed.shape):
        raise ScheduleError(f"{packed.name} has no dimension {step.dim!r}, and cannot be packed")
    if not isinstance(step.tensor, InputId) and program.is_output(step.tensor):
        raise ScheduleError(
            f"{packed.name} is an output, and its layout is what the caller expects",
            hint=f"pack a copy of it, which a cache_read for {reader.op.name} makes",
        )
    if any(other.tensor == step.tensor for other in program.packs):
        raise ScheduleError(f"tensor {packed.name} is packed twice")
    return replace(program, packs=(*program.packs, step))


def tensorize(program: Program, step: Tensorize) -> Program:
    """Make loops those of a tensor unit.

    Raises:
        ScheduleError: their trips are not fixed, or another loop than that of the vector is inside.
    """
    plan = program.stage(step.stage)
    for loop in step.loops:
        plan.check_loop(loop)
        factors = plan.splits.get(loop.axis, ())
        inside = factors[loop.level - 1 :]
        if loop.level == 0 or not inside or any(isinstance(f, DecisionId) for f in inside):
            raise ScheduleError(
                f"loop {plan.labels([loop])} of stage {plan.op.name} is none of a tensor unit",
                hint="split its axis by a number, which is the unit's",
            )
    order = plan.loops()
    first = min(map(order.index, step.loops), default=len(order))
    last = first + len(step.loops)
    around, results = order[first:last], order[last:]
    kinds_inside = [plan.kinds.get(loop) for loop in results]
    # on GPUs the rest of what a lane of a warp computes
    own = all(kind is LoopKind.UNROLLED for kind in kinds_inside) and results
    if set(around) != set(step.loops) or not (own or kinds_inside == [LoopKind.VECTORIZED]):
        raise ScheduleError(
            f"stage {plan.op.name} has other loops inside of those of its tensor unit",
            hint=f"order {plan.labels(step.loops)} just outside of the vectorised loop",
        )
    kinds = {**plan.kinds, **dict.fromkeys(step.loops, LoopKind.TENSOR)}
    return program.with_stage(replace(plan, kinds=kinds))


def shared_tiles(program: Program, step: SharedTiles) -> Program:
    """Lay out the tiles of a stage; raises ScheduleError for one that is not in shared memory."""
    plan = program.stage(step.stage)
    if not plan.shared:
        raise ScheduleError(
            f"stage {plan.op.name} has no tiles in shared memory",
            hint="a cache_read of scope shared makes a stage that has",
        )
    if not 0 <= step.dim < len(plan.op.axes):
        raise ScheduleError(f"{plan.op.name} has no dimension {step.dim!r} to be the innermost one")
    layouts = (*TILE_LAYOUTS, TURNED_PIECES)
    numbers = (("tiles", step.count, TILE_COUNTS), ("layout", step.layout, layouts))
    for what, value, allowed in numbers:
        if not isinstance(value, DecisionId) and value not in allowed:
            raise ScheduleError(f"{plan.op.name} cannot have {what} {quoted(value)}: of {allowed}")
    return program.with_stage(replace(plan, tiles=step))


def block_order(program: Program, step: BlockOrder) -> Program:
    """Say in which order blocks start; raises ScheduleError for a loop that is none of blocks."""
    plan = program.stage(step.stage)
    plan.check_loop(step.loop)
    if plan.kinds.get(step.loop) is not LoopKind.BLOCK:
        raise ScheduleError(
            f"loop {plan.labels([step.loop])} of stage {plan.op.name} is none of blocks",
            hint="annotate it as block before",
        )
    if not isinstance(step.rows, DecisionId) and step.rows not in BLOCK_ROWS:
        raise ScheduleError(
            f"{plan.op.name} cannot have {quoted(step.rows)} rows of blocks: of {BLOCK_ROWS}"
        )
    return program.with_stage(replace(plan, blocks=step))
