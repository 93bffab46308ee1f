"""Blocks: a stage that reads products tile by tile, and all that it needs for a block of tiles.

Where indices divide axes (``h // 4``, ``h % 4``), as those of fast convolutions do, the results are
computed in blocks of whole tiles, and every stage before them for one block at a time:

    parallel blocks of tiles
      tiles                 what the products read, transformed (its rows per vector of channels)
      products              tiled as a matrix product
      for each tile: columns, results

so that what lies between the stages is as large as a block and stays in a thread's own cache.
Where tiles have so many channels that a cache holds few, they may also be computed ahead, for all
blocks: then filters, which are read once for a block, are read less often.

Where indices divide what is left of an axis in a tile, too (``h % 8 // 2``, ``h % 8 % 2``), as
those of dilated convolutions do, the rests are walked around the tile: its loops are those of one.

Where an axis only selects which of the same products are added (the quadrants of Strassen's
algorithm), its values are a tile, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Final

from sketch.analysis.access import divisors, residues
from sketch.lang.expr import Axis
from sketch.nest.loopnest import LoopKind
from sketch.rules.block_structure import (
    block_host,
    block_loop,
    chosen_axes,
    is_for_blocks,
    is_wide,
    panel_trips,
    part_axes,
    product_behind,
)
from sketch.rules.packing import packing_choices
from sketch.rules.patterns import is_output, lanes_for, vector_axis
from sketch.rules.rule import State, Verdict
from sketch.rules.tiling import Tiling, tiled_producer
from sketch.schedule.loop import LoopId
from sketch.schedule.program import StagePlan
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Annotate, ComputeAt, Factor, Reorder, Split

_STRAIGHT: Final = (LoopKind.UNROLLED, LoopKind.VECTORIZED)


@dataclass(frozen=True, slots=True)
class ScheduleInBlocks:
    """``for h, for w, for o``  ->  ``parallel o.0 h.0 w.0, h.1 w.1 o.1 o.2, unrolled h.2 w.2,
    vector o.3`` with ``h.2`` and ``w.2`` as long as what indices divide h and w by, and ``o.2`` as
    many vectors as a panel of the product.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Stages at the root that read what is made of a pending product through such indices, or
        in parts.
        """
        op = stage.op
        vector = vector_axis(op)
        if op.reduce is not None or vector is None or vector in divisors(op):
            return Verdict.SKIP
        tiled = [axis for axis in divisors(op) if axis is not vector and axis in op.axes]
        if not tiled and not part_axes(state.program, op):
            return Verdict.SKIP
        return Verdict.SKIP if product_behind(state, op) is None else Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state."""
        op, name = stage.op, stage.id
        vector, sizes = vector_axis(op), divisors(op)
        product = product_behind(state, op)
        assert vector is not None and product is not None
        panel_axis = vector_axis(product.op)
        assert panel_axis is not None
        parts = part_axes(state.program, op)
        outer: list[LoopId] = [stage.loop(vector)]
        block: list[LoopId] = []
        around: list[LoopId] = []
        tile: list[LoopId] = []
        splits: list[Split] = []
        for axis in op.axes:
            if axis is vector:
                continue
            if axis in parts:
                tile.append(stage.loop(axis))
                continue
            outer.append(stage.loop(axis))
            if axis.extent == 1:
                continue
            factors: tuple[Factor, ...] = (stage.decision(axis, 1),)
            block.append(stage.loop(axis, 1))
            if axis in sizes:
                inner = residues(op).get(axis)
                factors = (*factors, sizes[axis] // (inner or 1))
                tile.append(stage.loop(axis, 2))
                if inner is not None:
                    factors = (*factors, inner)
                    around.append(stage.loop(axis, 3))
            splits.append(Split(name, stage.axis(axis), factors))
        lanes = lanes_for(vector, op, state.target)
        # Blocks are whole panels of the products, so that panels start where they are laid out.
        lanes = max(lanes, lanes_for(panel_axis, product.op, state.target))
        panels = (stage.decision(vector, 1), product.decision(panel_axis, 1), lanes)
        splits.append(Split(name, stage.axis(vector), panels))
        vectors, lane = (stage.loop(vector, 1), stage.loop(vector, 2)), stage.loop(vector, 3)
        done = state.then(
            *splits,
            Reorder(name, (*outer, *block, *vectors, *around, *tile, lane)),
            *(Annotate(name, loop, LoopKind.PARALLEL.value) for loop in outer),
            *(Annotate(name, loop, LoopKind.UNROLLED.value) for loop in tile),
            Annotate(name, lane, LoopKind.VECTORIZED.value),
        )
        return (done.done([name]),)


@dataclass(frozen=True, slots=True)
class ComputeInBlocks:
    """Every stage before one that is scheduled in blocks, for a block or less at a time."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Spatial stages with one consumer, in the nest of a stage in blocks."""
        program = state.program
        consumers = program.consumers(stage.op)
        if stage.op.reduce is not None or len(consumers) != 1 or is_output(program, stage):
            return Verdict.SKIP
        host = block_host(program, consumers[0])
        if host is None or host.id not in state.scheduled:
            return Verdict.SKIP
        inside = is_for_blocks(program, consumers[0], host)
        return Verdict.APPLY_AND_STOP if inside else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state, or two for wide tiles; for the copy of a product one per way to pack."""
        program, name = state.program, stage.id
        (consumer,) = program.consumers(stage.op)
        host = block_host(program, consumer)
        assert host is not None
        block = block_loop(host)
        product = tiled_producer(state, stage)
        if product is not None:
            attached = state.then(ComputeAt(name, host.id, block))
            plan, panel = attached.program.stage(name), panel_trips(program, stage)
            # Panels outside: each is read once for a block, and stays in L1 for all of its tiles.
            tiling = Tiling(attached, plan, product, "SRS", True, nested=True, panel_trips=panel)
            tiled = tiling.apply()
            return (tiled,) if panel is None else packing_choices(tiled, product.id, tiling.panel())
        if consumer.op.reduce is not None:
            chosen = chosen_axes(program, stage.op)
            attached = state.then(ComputeAt(name, host.id, block))
            found = (_straight(attached, name, chosen),)
            if not is_wide(stage.op, chosen, state.target):
                return found
            return (*found, _straight(state, name, chosen, parallel=True))
        loop = _last_loop(consumer)
        attached = state.then(ComputeAt(name, consumer.id, loop))
        return (_straight(attached, name, stage.op.axes),)


def _last_loop(plan: StagePlan) -> LoopId:
    """The innermost loop that is not written out."""
    around = []
    for loop in plan.loops():
        if plan.kinds.get(loop) in _STRAIGHT:
            break
        around.append(loop)
    return around[-1]


def _straight(
    state: State, name: StageId, unrolled: Collection[Axis], parallel: bool = False
) -> State:
    """Vectors along the last axis; the loops of the axes ``unrolled`` written out around them, the
    others in ``parallel`` or not.
    """
    stage = state.program.stage(name)
    vector = vector_axis(stage.op)
    assert vector is not None
    lane, outside = stage.loop(vector, 1), [stage.loop(vector)]
    inside = [stage.loop(a) for a in stage.op.axes if a in unrolled and a is not vector]
    around = [stage.loop(a) for a in stage.op.axes if a not in unrolled and a is not vector]
    lanes = lanes_for(vector, stage.op, state.target)
    return state.then(
        Split(name, stage.axis(vector), (lanes,)),
        Reorder(name, (*around, *outside, *inside, lane)),
        *(Annotate(name, x, LoopKind.PARALLEL.value) for x in (*around, *outside) if parallel),
        *(Annotate(name, loop, LoopKind.UNROLLED.value) for loop in inside),
        Annotate(name, lane, LoopKind.VECTORIZED.value),
    ).done([name])
