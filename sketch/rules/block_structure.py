"""What the rules of blocks ask of a program: what is in blocks, made of which product, by parts."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Final

from sketch.analysis.access import needs_tiling, reads_elementwise, stage_loads
from sketch.analysis.selecting import selecting_axes
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Axis
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import LoopKind
from sketch.rules.patterns import is_output, vector_axis
from sketch.rules.rule import State
from sketch.schedule.loop import LoopId
from sketch.schedule.program import Program, StagePlan, root_host, tensors_read, tile_of
from sketch.schedule.steps import Factor
from sketch.target.target import Target

# Tiles that a block should hold: filters are read once for each block.
_LEAST_TILES: Final = 16


def product_behind(state: State, op: Compute) -> StagePlan | None:
    """The pending reduction with data reuse that ``op`` reads through spatial stages, vector by
    vector; none of them is an output.
    """
    program = state.program
    pending = [(op, tensor) for tensor in tensors_read(op)]
    while pending:
        reader, tensor = pending.pop()
        plan = program.plan_of(tensor.op)
        if plan is None or len(program.consumers(plan.op)) != 1 or is_output(program, plan):
            continue
        if not _same_vectors(reader, plan.op):
            continue
        if plan.op.reduce is None:
            pending += [(plan.op, other) for other in tensors_read(plan.op)]
        elif needs_tiling(plan.op) and plan.id not in state.scheduled:
            return plan
    return None


def part_axes(program: Program, op: Compute) -> frozenset[Axis]:
    """The axes whose values select what a last stage computes of stages that it reads at places
    that do not depend on them: the parts of a result that are made of the same products.
    """
    return frozenset() if program.consumers(op) else _selecting_parts(program, op, {})


def _selecting_parts(
    program: Program, op: Compute, known: dict[int, frozenset[Axis]]
) -> frozenset[Axis]:
    """Those axes of a stage, or of what it reads element by element and may be computed in it;
    ``known``: of stages by their ids, for several may read one.
    """
    if id(op) in known:
        return known[id(op)]
    made = [load for load in stage_loads(op) if program.plan_of(load.tensor.op) is not None]
    read = {node for load in made for index in load.indices for node in walk(index)}
    found = {axis for axis in selecting_axes(op) if axis in op.axes and axis not in read}
    for load in made:
        producer = load.tensor.op
        if isinstance(producer, Compute) and reads_elementwise(op, producer):
            theirs = _selecting_parts(program, producer, known)
            found |= {a for a, b in zip(op.axes, producer.axes, strict=True) if b in theirs}
    known[id(op)] = frozenset(found)
    return known[id(op)]


def _same_vectors(reader: Compute, producer: Compute) -> bool:
    """Whether a stage reads of another just the elements at its own place of the vector axis."""
    mine, theirs = vector_axis(reader), vector_axis(producer)
    if mine is None or theirs is None:
        return False
    place = [axis is theirs for axis in producer.axes].index(True)
    loads = [load for load in stage_loads(reader) if load.tensor.op is producer]
    return all(load.indices[place] is mine for load in loads)


def panel_trips(program: Program, stage: StagePlan) -> Factor | None:
    """Vectors in the panels that the blocks around ``stage`` are made of; None where its vectors
    are not those of the blocks.
    """
    plan = stage
    while True:
        (consumer,) = program.consumers(plan.op)
        if not _same_vectors(consumer.op, plan.op):
            return None
        plan = consumer
        if plan.attach is None:
            break
    vector = vector_axis(plan.op)
    assert vector is not None
    return plan.splits[plan.axis(vector)][1]


def _in_blocks(program: Program, host: StagePlan) -> bool:
    """Whether loops of a stage walk tiles by whose size its indices divide, or its parts."""
    vector = vector_axis(host.op)  # an index may divide it by the lanes, which is no block
    if part_axes(program, host.op):
        return True
    return any(tile_of(host, n)[0] > 0 for n, axis in enumerate(host.op.axes) if axis is not vector)


def block_host(program: Program, consumer: StagePlan) -> StagePlan | None:
    """The stage in blocks for which a stage that ``consumer`` reads is computed."""
    host = root_host(program, consumer)
    if _in_blocks(program, host):
        return host
    readers = program.consumers(host.op)  # of what is computed for all blocks at once
    if len(readers) != 1 or readers[0].op.reduce is None:
        return None
    host = root_host(program, readers[0])
    return host if _in_blocks(program, host) else None


def block_loop(host: StagePlan) -> LoopId:
    """The innermost loop over the blocks of a stage in blocks."""
    return [loop for loop in host.loops() if host.kinds.get(loop) is LoopKind.PARALLEL][-1]


def is_for_blocks(program: Program, plan: StagePlan, host: StagePlan) -> bool:
    """Whether a stage is computed in the blocks of ``host``, or for all of them ahead; else it is
    for several of them, as what adds up parts of sums may be.
    """
    while plan.attach is not None and plan.attach[0] != host.id:
        plan = program.stage(plan.attach[0])
    loops = host.loops()
    return plan.attach is None or loops.index(plan.attach[1]) >= loops.index(block_loop(host))


def is_wide(op: Compute, chosen: Collection[Axis], target: Target) -> bool:
    """Whether a core's cache holds few tiles, so that the filters are read again for each few: the
    tiles may be computed for all blocks ahead.
    """
    vector = vector_axis(op)
    assert vector is not None
    tile = prod(axis.extent for axis in chosen if axis is not vector) * vector.extent
    return tile * size_of(op.output_dtypes[0]) * _LEAST_TILES > target.l2_bytes


def chosen_axes(program: Program, op: Compute) -> frozenset[Axis]:
    """The axes whose values select what a stage computes, or what a stage that it reads does."""
    return _chosen_axes(program, op, {})


def _chosen_axes(
    program: Program, op: Compute, known: dict[int, frozenset[Axis]]
) -> frozenset[Axis]:
    """``known``: of stages by their ids, for several may read one."""
    if id(op) in known:
        return known[id(op)]
    found = set(selecting_axes(op).intersection(op.axes))
    for load in stage_loads(op):
        producer = program.plan_of(load.tensor.op)
        if producer is None or producer.op.reduce is not None:
            continue
        theirs = _chosen_axes(program, producer.op, known)
        for axis, index in zip(producer.op.axes, load.indices, strict=True):
            if axis in theirs and isinstance(index, Axis):
                found.add(index)
    known[id(op)] = frozenset(found)
    return known[id(op)]
