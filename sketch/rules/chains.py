"""Chains: a product that reads what is made of another product, one block of rows after the other.

    parallel blocks of rows
      scores                tiled as a matrix product
      for a few rows at a time: maximum, powers, sum, weights
      product of the weights with the values, tiled

so that what lies between two products is as large as a block and stays in a thread's own cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Final, TypeGuard

from sketch.analysis.access import needs_tiling, stage_loads
from sketch.lang.expr import Axis, Expr
from sketch.lang.tensor import Compute
from sketch.nest.lanes import lane_bytes
from sketch.nest.loopnest import LoopKind
from sketch.rules.locations import standing_axes
from sketch.rules.packing import packing_choices
from sketch.rules.patterns import (
    batch_positions,
    is_made_of_product,
    is_output,
    lanes_for,
    loops_in_batch,
    vector_axis,
)
from sketch.rules.rows_together import rows_inside, rows_of, rows_that_fit
from sketch.rules.rule import State, Verdict
from sketch.rules.simple import schedule_simply
from sketch.rules.tiling import CACHE_TILE, REGISTER_TILE, Tiling, tiled_producer
from sketch.rules.unit_fit import Fit, fits_of
from sketch.schedule.loop import LoopId
from sketch.schedule.program import Program, StagePlan, root_host
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Annotate, ComputeAt, Reorder, Split, Tensorize
from sketch.target.units import units_of

# Rows of a chain: with fewer, blocks would be too small to use what they read again.  However many
# threads share them: what other rules make of a product in the middle of a program is slower yet.
_LEAST_ROWS: Final = 64


@dataclass(frozen=True, slots=True)
class TileInChain:
    """Tile the last product of a chain, blocks of the rows of its first operand outermost."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Root stages that read such a product element by element."""
        product = tiled_producer(state, stage)
        if stage.attach is not None or product is None or not needs_tiling(product.op):
            return Verdict.SKIP
        return Verdict.APPLY_AND_STOP if _block_axes(state, product) else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state per tile structure, order of the tiles, and way to pack the other operand."""
        product = tiled_producer(state, stage)
        assert product is not None
        walked = zip(stage.op.axes, product.op.axes, strict=True)
        selecting = _block_axes(state, product)
        blocks = frozenset(own for own, axis in walked if axis in selecting)
        shared = _shared_axes(state, stage, product, blocks)
        states: list[State] = []
        for fit in _units(state, product):
            for structure in (REGISTER_TILE, CACHE_TILE):
                tiling = Tiling(
                    state, stage, product, structure, False, blocks=blocks, shared=shared, unit=fit
                )
                states += packing_choices(tiling.apply(), product.id, tiling.panel())
        return tuple(states)


@dataclass(frozen=True, slots=True)
class ComputeInChain:
    """What lies between two products of a chain: the first one and what reads it as a whole per
    block, the stages of a row for one row after the other.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Stages made of a pending product, all of whose consumers are in the nest of a chain."""
        tiled = stage.op.reduce is not None and needs_tiling(stage.op)
        if tiled or stage.op.store is not None or is_output(state.program, stage):
            return Verdict.SKIP
        host = _chain_host(state.program, stage)
        if (
            host is None
            or host.id not in state.scheduled
            or not is_made_of_product(state.program, stage.op, state.scheduled)
        ):
            return Verdict.SKIP
        return Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state; for the copy of a product one per order of its tiles and way to pack."""
        program, name = state.program, stage.id
        host = _chain_host(program, stage)
        assert host is not None
        block = _block_loop(host)
        product = tiled_producer(state, stage)
        if product is not None and needs_tiling(product.op):
            attached = state.then(ComputeAt(name, host.id, block))
            states: list[State] = []
            for fit in _units(attached, product):
                for outside in (True, False):
                    plan = attached.program.stage(name)
                    tiling = Tiling(
                        attached, plan, product, REGISTER_TILE, outside, nested=True, unit=fit
                    )
                    states += packing_choices(tiling.apply(), product.id, tiling.panel())
            return tuple(states)
        row = _row_host(program, stage, host)
        if row is None:
            return (_in_block(state, stage, host),)
        attached = schedule_simply(state.then(ComputeAt(name, row.id, _row_loop(row))), name)
        return (rows_inside(attached, name, row),)


def _units(state: State, product: StagePlan) -> tuple[Fit | None, ...]:
    """Plain vectors, and the first tensor unit that computes a product, one with tile registers
    where there is such: a chain has a choice for each of its products, and what follows a product
    on a unit is on one, too.
    """
    fits = fits_of(state.program, product, units_of(state.target))
    unit = sorted(fits, key=lambda fit: not fit.unit.tiles)[:1]
    if unit and any(isinstance(step, Tensorize) for step in state.steps):
        return tuple(unit)
    return (None, *unit)


def _in_block(state: State, stage: StagePlan, host: StagePlan) -> State:
    """A stage computed for a block of rows; a sum or maximum that the result is scaled by for the
    rows of a tile, whose product reads them next.
    """
    name, tile = stage.id, _tile_loop(state.program, stage, host)
    if tile is None:
        return _in_rows(state.then(ComputeAt(name, host.id, _block_loop(host))), name)
    attached = schedule_simply(state.then(ComputeAt(name, host.id, tile)), name)
    inside = host.loops()[host.loops().index(tile) + 1 :]
    rows = [loop for loop in inside if host.loop_axis(loop) is host.loop_axis(tile)]
    few = all(host.kinds.get(loop) is LoopKind.UNROLLED for loop in rows)
    return rows_inside(attached, name, host) if few else attached


def _tile_loop(program: Program, stage: StagePlan, host: StagePlan) -> LoopId | None:
    """The innermost loop of rows around the tiles of the last product of a chain; None for a stage
    that does not reduce, or that is read elsewhere.
    """
    tiles = next(
        plan.attach
        for plan in program.stages
        if plan.attach is not None
        and plan.attach[0] == host.id
        and plan.op.reduce is not None
        and needs_tiling(plan.op)
    )
    loops = host.loops()
    rows = {host.loop_axis(x) for x in loops[: loops.index(_block_loop(host)) + 1]}
    around = loops[: loops.index(tiles[1]) + 1]
    tile = [loop for loop in around if host.loop_axis(loop) in rows][-1]
    readers = [c for c in program.consumers(stage.op) if c.attach != (host.id, tile)]
    scales = stage.op.reduce is not None and all(c.id == host.id for c in readers)
    return tile if scales else None


def _in_rows(state: State, name: StageId) -> State:
    """``for i, for j``  ->  ``for i.0, for j.0, unrolled i.1, vector j.1``, rows i, where there are
    enough of them; else one row after the other.
    """
    stage, op = state.program.stage(name), state.program.stage(name).op
    rows, vector = rows_of(stage), vector_axis(op)
    if op.reduce is not None or not rows or vector is None:
        return schedule_simply(state, name)
    row_bytes = lane_bytes(op) * vector.extent
    together = rows_that_fit(state.target, row_bytes, rows[-1].extent)
    if together == 1 or vector in standing_axes(state.program, stage):
        return schedule_simply(state, name)
    inside, lane = stage.loop(rows[-1], 1), stage.loop(vector, 1)
    around = (*(stage.loop(axis) for axis in rows), stage.loop(vector))
    return state.then(
        Split(name, stage.axis(rows[-1]), (together,)),
        Split(name, stage.axis(vector), (lanes_for(vector, op, state.target),)),
        Reorder(name, (*around, inside, lane)),
        Annotate(name, inside, LoopKind.UNROLLED.value),
        Annotate(name, lane, LoopKind.VECTORIZED.value),
    ).done([name])


def _block_axes(state: State, product: StagePlan) -> frozenset[Axis]:
    """The axes of a product that select rows of an operand made of another one; empty where there
    is no such operand, rows need more of it than themselves, or are too few.
    """
    program, vector = state.program, vector_axis(product.op)
    for load in stage_loads(product.op):
        plan = program.plan_of(load.tensor.op)
        if plan is None or not is_made_of_product(program, plan.op, state.scheduled):
            continue
        rows = {
            i: a for a, i in zip(plan.op.axes, load.indices, strict=True) if _is_row(i, product)
        }
        number = prod(axis.extent for axis in rows)
        kept = _keeps_rows(program, plan.op, frozenset(rows.values()), {})
        if kept and vector not in rows and number >= _LEAST_ROWS:
            return frozenset(rows)
    return frozenset()


def _shared_axes(
    state: State, stage: StagePlan, product: StagePlan, blocks: frozenset[Axis]
) -> frozenset[Axis]:
    """The axes of a batch, where threads have equally many of it: what a block shares with the next
    one of the same element of the batch stays with one thread, next to blocks of some rows, which
    are written and read.  Empty: all blocks are shared out.
    """
    op, target = product.op, state.target
    row_bytes = lane_bytes(op) * prod(axis.extent for axis in op.reduce_axes)
    if (op.axes[-1].extent + 2 * _LEAST_ROWS) * row_bytes > target.l2_bytes // 2:
        return frozenset()
    batch = frozenset(stage.op.axes[n] for n in batch_positions(op, 0)) & blocks
    vector = vector_axis(stage.op)
    rows = [axis for axis in stage.op.axes if axis is not vector and axis not in batch]
    whole = all(axis in blocks for axis in rows) and any(axis.extent > 1 for axis in rows)
    each, left = divmod(prod(axis.extent for axis in batch), target.threads)
    return batch if whole and each and not left else frozenset()


def _is_row(index: Expr, product: StagePlan) -> TypeGuard[Axis]:
    return isinstance(index, Axis) and index in product.op.axes


def _keeps_rows(
    program: Program, op: Compute, rows: frozenset[Axis], known: dict[int, frozenset[Axis]]
) -> bool:
    """Whether a row of ``op`` needs just that row of what lies before it, up to a product.

    ``known``: stages that were looked at, by their ids, and their rows.
    """
    if known.setdefault(id(op), rows) != rows:
        return False
    if op.reduce is not None and needs_tiling(op):
        return True
    for load in stage_loads(op):
        plan = program.plan_of(load.tensor.op)
        if plan is None or not is_made_of_product(program, load.tensor.op):
            continue
        pairs = zip(plan.op.axes, load.indices, strict=True)
        axes = {i: a for a, i in pairs if isinstance(i, Axis) and i in rows}
        before = frozenset(axes.values())
        if known.get(id(plan.op)) == before:
            continue
        if len(axes) < len(rows) or not _keeps_rows(program, plan.op, before, known):
            return False
    return True


def _chain_host(program: Program, stage: StagePlan) -> StagePlan | None:
    """The root stage of a chain's nest that all consumers of a stage are computed in."""
    hosts = {root_host(program, consumer).id for consumer in program.consumers(stage.op)}
    if len(hosts) != 1:
        return None
    host = program.stage(hosts.pop())
    vector = vector_axis(host.op)
    inside = [p for p in program.stages if p.attach is not None and p.attach[0] == host.id]
    tiled = any(p.op.reduce is not None and needs_tiling(p.op) for p in inside)
    if vector is None or not tiled or LoopKind.PARALLEL not in host.kinds.values():
        return None
    return None if host.kinds.get(host.loop(vector)) is LoopKind.PARALLEL else host


def _block_loop(host: StagePlan) -> LoopId:
    """The innermost loop of blocks: of those that threads share, or of the rows inside a batch."""
    inside = loops_in_batch(host)
    if inside:
        return inside[-1]
    return [loop for loop in host.loops() if host.kinds.get(loop) is LoopKind.PARALLEL][-1]


def _row_host(program: Program, stage: StagePlan, host: StagePlan) -> StagePlan | None:
    """The stage, computed per block, inside whose rows all consumers of a stage are computed."""
    block = (host.id, _block_loop(host))
    found = set()
    for consumer in program.consumers(stage.op):
        around = consumer
        while around.attach is not None and around.attach != block:
            around = program.stage(around.attach[0])
        found.add(around.id)
    row = program.stage(found.pop())
    return row if not found and row.id != host.id and row.op.reduce is None else None


def _row_loop(row: StagePlan) -> LoopId:
    """The innermost loop around those of the vector axis."""
    vector = vector_axis(row.op)
    serial = [loop for loop in row.loops() if loop not in row.kinds]
    return [loop for loop in serial if row.loop_axis(loop) is not vector][-1]
