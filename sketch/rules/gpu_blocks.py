"""Blocks of tiles on GPUs: transforms, products and results of a block in one launch.

Where indices divide axes (``h // 2``, ``h % 2``), as those of fast convolutions do, threads compute
whole tiles of results: what the results of a tile are made of stays in registers.

    block, virtual thread, warp, lane of the results' tiles
      products = 0                                    (registers: of a tile, all of them)
      R0:  tiles.cache <- transform of the data       (shared memory, a thread transforms a tile)
           filters.cache <- tile of the filters       (shared memory)
        R1, R2:  products += tiles.cache * filters.cache
      results of the tiles, from the products

Nothing lies between the stages in global memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Final

from sketch.analysis.access import divisors
from sketch.lang.expr import Axis, Load
from sketch.lower.placement import place
from sketch.nest.loopnest import LoopKind
from sketch.rules.block_structure import chosen_axes, product_behind
from sketch.rules.gpu_reuse import shares_operands
from sketch.rules.gpu_tiling import INNER, in_shared_tiles
from sketch.rules.patterns import is_output, vector_axis
from sketch.rules.rule import State, Verdict
from sketch.schedule.decision import DecisionId
from sketch.schedule.program import Program, StagePlan, root_host, walks_tiles
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Annotate, ComputeAt, Inline, Reorder

# Sums of a tile that leave a thread registers for more than one of them.
_MOST_SUMS: Final = 64


@dataclass(frozen=True, slots=True)
class TileBlocksInThreads:
    """``parallel h, w, o: y = f(p[h // 2, w // 2, o])``  ->  ``GpuTilingWithFusion`` of the product
    p by the tiles of y: a thread walks its tiles, then the 2 x 2 results of each.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Stages at the root that read a pending product through such indices, maybe through other
        stages, so that each of its elements belongs to one tile; they may stay in kernels of their
        own where the operands do.
        """
        made = _in_tiles(state, stage)
        if made is None:
            return Verdict.SKIP
        rule = TransformInFill()
        fused = any(rule.applies(made, plan) is not Verdict.SKIP for plan in made.program.stages)
        return Verdict.APPLY_AND_STOP if fused else Verdict.APPLY

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state, with the product, the tiles of its operands, and all that is made of it."""
        made = _in_tiles(state, stage)
        assert made is not None
        return (made,)


@dataclass(frozen=True, slots=True)
class TransformInFill:
    """What a tile of shared memory holds is transformed by the thread that fills it.

    before:  tile(i, c) = t[i, c];  t(i, c) = i < 1 ? x[0, c] - x[2, c] : x[1, c] + x[2, c]
    after:   thread c: unrolled i: tile(i, c) = i < 1 ? x[0, c] - x[2, c] : x[1, c] + x[2, c]

    Passes of a transform before the last one are computed in registers.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Stages of several terms, one of which an axis selects, that only tiles of a nest of
        blocks are made of.
        """
        program, op = state.program, stage.op
        consumers = program.consumers(op)
        if op.reduce is not None or len(consumers) != 1 or is_output(program, stage):
            return Verdict.SKIP
        (tile,) = consumers
        if not tile.shared or not walks_tiles(root_host(program, tile)):
            return Verdict.SKIP
        chosen = chosen_axes(program, op)
        small = 0 < len(chosen) < len(op.axes) and _extent(chosen) <= _MOST_SUMS
        return Verdict.APPLY_AND_STOP if small else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state: in place of the copy, or attached to what reads the stage."""
        (tile,) = state.program.consumers(stage.op)
        if isinstance(tile.op.bodies[0], Load):
            return (_written_out(state.then(Inline(stage.id)), tile.id),)
        threads = [x for x in tile.loops() if tile.kinds.get(x) is LoopKind.THREAD]
        state = state.then(
            ComputeAt(stage.id, tile.id, threads[-1]),
            *(Annotate(stage.id, loop, LoopKind.UNROLLED.value) for loop in stage.loops()),
        )
        return (state.done([stage.id]),)


def _written_out(state: State, name: StageId) -> State:
    """All terms of a transform in one thread, which shares what they have in common."""
    tile = state.program.stage(name)
    chosen = chosen_axes(state.program, tile.op)
    inside = [loop for loop in tile.loops() if tile.loop_axis(loop) in chosen]
    around = [loop for loop in tile.loops() if loop not in inside]
    return state.then(
        Reorder(name, (*around, *inside)),
        *(Annotate(name, loop, LoopKind.UNROLLED.value) for loop in inside),
    )


def _in_tiles(state: State, host: StagePlan) -> State | None:
    """The state with a product in the threads of a host that walks tiles; None where the stage is
    no such host.
    """
    vector = vector_axis(host.op)
    if host.op.reduce is not None or vector is None or vector in divisors(host.op):
        return None
    sizes = {axis: size for axis, size in divisors(host.op).items() if axis in host.op.axes}
    product = product_behind(state, host.op) if sizes else None
    if product is None or not shares_operands(product.op):
        return None
    made = in_shared_tiles(state, host, product, sizes=sizes, lanes=True)
    loops = made.program.stage(host.id).loops()
    tile = loops[loops.index(host.loop(next(iter(sizes)), INNER + 1)) - 1]
    (reader,) = state.program.consumers(product.op)
    while reader.id != host.id:
        made = made.then(
            ComputeAt(reader.id, host.id, tile),
            *(Annotate(reader.id, loop, LoopKind.UNROLLED.value) for loop in reader.loops()),
        ).done([reader.id])
        (reader,) = state.program.consumers(reader.op)
    return made if _is_divided(made.program, host, product) else None


def _is_divided(program: Program, host: StagePlan, product: StagePlan) -> bool:
    """Whether the tiles of a host are made of different sums, each of not too many."""
    tiles = prod(-(-a.extent // divisors(host.op).get(a, 1)) for a in host.op.axes)
    factors = {f for plan in program.stages for split in plan.splits.values() for f in split}
    ones = {factor: 1 for factor in factors if isinstance(factor, DecisionId)}
    placed = place(program, ones, frozenset((product.id,))).stages[product.id]
    sums = prod(int(placed.extents[axis]) for axis in product.op.axes)
    return sums <= _MOST_SUMS and sums * tiles <= _extent(product.op.axes)


def _extent(axes: Iterable[Axis]) -> int:
    return prod(axis.extent for axis in axes)
