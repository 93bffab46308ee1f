"""Feasibility: which rows fit the hardware, as vectorised predicates on the lowered nest.

The rules hold for every statement that accumulates into a register tile (the unrolled and
vectorised loops inside its innermost serial loop).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketch.analysis.access import affine_index, stage_loads
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Axis
from sketch.lang.kept import kept
from sketch.lower.lower import lower_by_root
from sketch.nest.lanes import in_tile_registers, store_bytes
from sketch.nest.loopnest import Allocate, Loop, LoopKind, LoopNest, Num, Scope, Store
from sketch.nest.walk import stores, walk
from sketch.population.blocks_gpu import Flags, fills_gpu
from sketch.population.draw_gpu import Ints, draw_blocks
from sketch.population.feasible_gpu import feasible_on_gpu
from sketch.population.tape import Tape, record
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.schedule.stage import StageId
from sketch.target.of_kind import of_kind
from sketch.target.target import Target, TargetKind
from sketch.target.units import MOST_TILE_RESULTS

# Private buffers beyond this share of the L2 cache would evict what they are meant to save.
_LOCAL_SHARE_OF_L2 = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class RegisterTile:
    """The copies of one accumulating statement that unrolled and vectorised loops make.

    Counted from the loops alone, before any index is known.  What the copies read, and how far
    out a tile stays in registers, are questions of cost: ``AccumulatorTile`` of the features.

    Attributes:
        rows: unrolled copies that differ in other axes than the vector axis.
        vectors: SIMD registers along the vector axis.
        copies: unrolled copies along reduce axes.
        points: elements of the stage's domain, which bounds any tile, along the axes that are
            split: a tile spreads along no other.
        width, height: of that domain, as a tile: SIMD registers along the vector axis, and rows.
        tiles: whether results are blocks in tile registers, which rows and vectors count then.
    """

    rows: Num
    vectors: Num
    copies: Num
    points: Num
    width: Num
    height: Num
    tiles: bool = False


def register_tile(loops: tuple[Loop, ...], target: Target, lane_bytes: int) -> RegisterTile:
    """The register tile of a statement inside ``loops`` that computes on ``lane_bytes``."""
    lanes = target.lanes(lane_bytes)
    vector = next((loop for loop in loops if loop.kind is LoopKind.VECTORIZED), None)
    axis = None if vector is None else vector.var.axis
    rows: Num = 1
    vectors: Num = 1 if vector is None else -(-vector.extent // lanes)
    copies: Num = 1
    points: Num = 1
    along: Num = 1
    tiles = in_tile_registers(loops)
    walks = Counter(loop.var.axis for loop in loops)
    for loop in loops:
        inner = loop.kind not in (LoopKind.SERIAL, LoopKind.PARALLEL)
        if loop.axis_kind == "spatial" and (inner or walks[loop.var.axis] > 1):
            points = points * loop.extent
            if axis is not None and loop.var.axis is axis:
                along = along * loop.extent
        if loop.kind not in (LoopKind.UNROLLED, LoopKind.TENSOR):
            continue
        if loop.kind is LoopKind.TENSOR and (tiles or loop.axis_kind == "reduce"):
            continue  # what one instruction adds
        if loop.axis_kind == "reduce":
            copies = copies * loop.extent
        elif axis is not None and loop.var.axis is axis:
            vectors = vectors * loop.extent
        else:
            rows = rows * loop.extent
    return RegisterTile(rows, vectors, copies, points, -(-along // lanes), points // along, tiles)


def feasible_on_cpu(nest: LoopNest, target: Target) -> Flags:
    """Which rows of a lowered population fit ``target``; bool ``[P]``, or one for all rows."""
    fits: Flags = True
    for store, loops in stores(nest.roots):
        tile = register_tile(loops, target, store_bytes(store))
        instructions = tile.rows * tile.vectors * tile.copies
        fits = fits & (instructions <= target.instruction_budget)
        if store.reducer is None or not any(loop.axis_kind == "reduce" for loop in loops):
            continue
        accumulators = tile.rows * tile.vectors * len(store.targets)
        if tile.tiles:
            fits = fits & (accumulators <= MOST_TILE_RESULTS)
            continue
        # no tile is smaller than a point: many results at once may spill
        fits = fits & ((accumulators + tile.vectors + 1 <= target.registers) | _is_point(loops))
        unbound = _is_of_lanes(store, loops) or _merges_parts(store, target)
        if store.targets[0].scope is Scope.LOCAL and not unbound:
            large = _largest(tile, len(store.targets), target)
            fits = fits & (_enough_accumulators(tile, loops, target) | large)
    return fits & (_local_bytes(nest) <= _LOCAL_SHARE_OF_L2 * target.l2_bytes)


def _is_point(loops: tuple[Loop, ...]) -> Flags:
    copies: Num = 1
    for loop in loops:
        if loop.kind is LoopKind.UNROLLED:
            copies = copies * loop.extent
    return copies == 1


def _is_of_lanes(store: Store, loops: tuple[Loop, ...]) -> bool:
    """Whether lanes hold parts of a result, each of its own terms, or the lanes of one are added:
    a rule says of how many results.
    """
    lane = next((loop.var.axis for loop in loops if loop.kind is LoopKind.VECTORIZED), None)
    if store.stage is None or lane is None:
        return store.stage is not None
    reduced = set(store.stage.reduce_axes)
    forms = (affine_index(i) for load in stage_loads(store.stage) for i in load.indices)
    return any(lane in form[0] and reduced & form[0].keys() for form in forms if form is not None)


def _merges_parts(store: Store, target: Target) -> bool:
    """Whether a few parts of each result are added, no more than a vector has lanes: what computed
    them takes longer than to wait for each sum.
    """
    stage, lanes = store.stage, target.lanes(store_bytes(store))
    if stage is None or prod(axis.extent for axis in stage.reduce_axes) > lanes:
        return False
    loads = stage_loads(stage)
    plain = [i for load in loads for i in load.indices if isinstance(i, Axis)]
    return len(loads) == 1 and all(axis in plain for axis in stage.reduce_axes)


def _enough_accumulators(tile: RegisterTile, loops: tuple[Loop, ...], target: Target) -> Flags:
    """Independent accumulators hide the FMA latency, unless the stage itself is too small."""
    if not any(loop.kind is LoopKind.UNROLLED and loop.axis_kind == "spatial" for loop in loops):
        return True
    lanes = next((loop.extent for loop in loops if loop.kind is LoopKind.VECTORIZED), 1)
    available = -(-tile.points // lanes)
    return tile.rows * tile.vectors >= np.minimum(target.fma_accumulators, available)


def _largest(tile: RegisterTile, results: int, target: Target) -> Flags:
    """Whether neither one vector more nor twice the rows would fit the registers and the domain.

    Where few rows share the vectors that they read, 16 registers hold no tile that hides the
    latency: two rows and six vectors need 19.
    """
    rows, vectors = tile.rows, tile.vectors
    accumulators = rows * vectors * results
    widest = accumulators + rows * results + vectors + 2 > target.registers
    tallest = 2 * accumulators + vectors + 1 > target.registers
    return (widest | (vectors >= tile.width)) & (tallest | (rows >= tile.height))


def _local_bytes(nest: LoopNest) -> Num:
    total: Num = 0
    for node in walk(nest.roots):
        if isinstance(node, Allocate) and node.buffer.scope is Scope.LOCAL:
            total = total + node.buffer.size * size_of(node.buffer.dtype)
    return total


@dataclass(frozen=True, slots=True)
class BlockDraw:
    """How rows are drawn where few of those that fit use the machine.

    Attributes:
        draw: (sketch, columns of one nest, count, randomness) to rows, int64 ``[count, D]``.
        fills: (nest, target) to the rows that use all of the machine, as ``Hardware.feasible``.
    """

    draw: Callable[[Sketch, Sequence[int], int, np.random.Generator], Ints]
    fills: Callable[[LoopNest, Target], Flags]


@dataclass(frozen=True, slots=True)
class Hardware:
    """A kind of machine.

    Attributes:
        feasible: (nest, target) to the rows that fit, bool ``[P]`` or one.
        blocks: how rows are drawn; None: level by level.
        outlined: whether ``feasible`` looks at no index and no predicate.
    """

    kind: TargetKind
    feasible: Callable[[LoopNest, Target], Flags]
    blocks: BlockDraw | None = None
    outlined: bool = False


SIMD_CPU: Final = Hardware("cpu", feasible_on_cpu, outlined=True)
GPU: Final = Hardware("cuda", feasible_on_gpu, BlockDraw(draw_blocks, fills_gpu))


def hardware_of(target: Target) -> Hardware:
    """The kind of machine that a target is."""
    return of_kind(target, (SIMD_CPU, GPU))


def feasible(
    sketch: Sketch, values: Mapping[DecisionId, Num], root: StageId | None = None
) -> NDArray[np.bool_]:
    """Which rows of ``values`` (arrays ``[P]``, or ints for one row) fit the sketch's target.

    ``root``: look only at the nest of this root stage, and at what is attached inside it.
    """
    return _judged(_tapes(sketch)[root], sketch, values)


def fills(
    sketch: Sketch, values: Mapping[DecisionId, Num], root: StageId | None = None
) -> NDArray[np.bool_]:
    """Which rows of ``values`` use all of the target; as ``feasible``.

    All of them where the target's rows are drawn without regard to that.
    """
    blocks = hardware_of(sketch.target).blocks
    if blocks is None:
        return np.ones(_count(sketch, values), np.bool_)
    return _judged(_filling_tapes(sketch)[root], sketch, values)


def _judged(tape: Tape, sketch: Sketch, values: Mapping[DecisionId, Num]) -> NDArray[np.bool_]:
    columns = [np.atleast_1d(values[decision.id]) for decision in sketch.decisions]
    (flags,) = tape.replay(columns)
    return np.broadcast_to(flags, (_count(sketch, values),))


def _count(sketch: Sketch, values: Mapping[DecisionId, Num]) -> int:
    return max((np.size(values[decision.id]) for decision in sketch.decisions), default=1)


@kept
def _tapes(sketch: Sketch) -> Mapping[StageId | None, Tape]:
    hardware = hardware_of(sketch.target)
    return _record(sketch, hardware.feasible, hardware.outlined)


@kept
def _filling_tapes(sketch: Sketch) -> Mapping[StageId | None, Tape]:
    blocks = hardware_of(sketch.target).blocks
    assert blocks is not None
    return _record(sketch, blocks.fills)


FEASIBILITY: Final = (_tapes, _filling_tapes)
"""What ``feasible`` and ``fills`` keep of a sketch."""


def _record(
    sketch: Sketch, judge: Callable[[LoopNest, Target], Flags], outline: bool = False
) -> Mapping[StageId | None, Tape]:
    """What ``judge`` says by root stage, and under None of all of them together."""
    names = [decision.id for decision in sketch.decisions]
    roots = [plan.id for plan in sketch.program.stages if plan.attach is None]

    def flags(columns: Sequence[Any]) -> list[Flags]:
        values = dict(zip(names, columns, strict=True))
        nest, parts = lower_by_root(sketch, values, outline)
        of_roots = [judge(parts[root], sketch.target) for root in roots]
        return of_roots if len(roots) == 1 else [*of_roots, judge(nest, sketch.target)]

    tape = record(flags, len(names))
    tapes = [tape.only([n]) for n in range(len(tape.results))]
    return {None: tapes[-1], **dict(zip(roots, tapes, strict=False))}
