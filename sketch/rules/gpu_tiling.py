"""Multi-level tiling for GPUs: SSSSRRS with operands in shared memory.

The consumer's loops are bound to blocks, warps and lanes; the reduction runs inside a thread.

    block S0, virtual thread S1, warp S2, lane S3 of the consumer       (of a batch: S0, warp S1)
      acc = 0                                        (registers)
      R0:  A.cache, B.cache <- tiles of A and B      (shared memory, all threads together)
        R1, R2, S4:  acc += A.cache * B.cache        (R2 and S4 unrolled)
      S4: consumer of acc

Warps and lanes are loops of threads; the lanes of all axes together are 32 in the rows that are
drawn, so that a warp reads a compact part of each tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from sketch.analysis.access import affine_index, stage_loads
from sketch.lang.expr import Axis
from sketch.lang.tensor import Tensor
from sketch.nest.loopnest import LoopKind, Scope
from sketch.rules.gpu_order import block_order
from sketch.rules.gpu_reuse import shares_operands
from sketch.rules.patterns import batch_positions, longest
from sketch.rules.rule import State, Verdict
from sketch.rules.tiling import tiled_producer
from sketch.schedule.decision import LoopDecision
from sketch.schedule.loop import LoopId
from sketch.schedule.program import StagePlan, tensors_read
from sketch.schedule.stage import StageId
from sketch.schedule.stage_steps import cache_id
from sketch.schedule.steps import (
    Annotate,
    CacheRead,
    ComputeAt,
    Factor,
    Pack,
    Reorder,
    SharedTiles,
    Split,
    Step,
)
from sketch.target.target import Target

_BOUND: Final = (LoopKind.BLOCK, LoopKind.VTHREAD, LoopKind.THREAD, LoopKind.THREAD)
INNER: Final = 4
"""Tile level of the consumer inside one thread: S4."""


@dataclass(frozen=True, slots=True)
class GpuTilingWithFusion:
    """Tile the reduction that ``stage`` reads element by element over blocks and threads."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Spatial stages that read a pending reduction with data reuse element by element."""
        found = tiled_producer(state, stage)
        reuse = found is not None and shares_operands(found.op)
        return Verdict.APPLY_AND_STOP if reuse else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state; operands of the reduction are read through shared memory."""
        inner = tiled_producer(state, stage)
        assert inner is not None
        # tiles of what all operands depend on reuse nothing
        batch = frozenset(stage.op.axes[n] for n in batch_positions(inner.op))
        return (in_shared_tiles(state, stage, inner, batch),)


def in_shared_tiles(
    state: State,
    host: StagePlan,
    inner: StagePlan,
    batch: frozenset[Axis] = frozenset(),
    sizes: Mapping[Axis, int] | None = None,
    lanes: bool = False,
) -> State:
    """``inner`` computed in the threads of ``host``, and its operands read through shared memory.

    Args:
        state: before, in which neither is scheduled.
        host: what is made of the reduction at the root.
        inner: the reduction.
        batch: axes of the host that no tile walks.
        sizes: of the tiles of results that are made of the same elements of the reduction, by axis
            of the host.
        lanes: whether several threads may share out the terms of a sum.
    """
    steps = _tile_host(host, inner, batch, sizes or {}, state.target)
    state = state.then(*steps, *_tile_inner(inner, lanes))
    return read_from_tiles(state, host, inner)


def read_from_tiles(
    state: State,
    host: StagePlan,
    inner: StagePlan,
    dims: Mapping[Tensor, int] | None = None,
    together: Mapping[Tensor, int] | None = None,
    layout: int | None = None,
) -> State:
    """Operands of the reduction through shared memory; it and its host are done.

    Args:
        state: before, with the loops of both.
        host: what is made of the reduction.
        inner: the reduction, whose loops over tiles are the outermost level of its reduce axes.
        dims: of operands, which one some layouts have innermost; of others the last one that a
            spatial axis walks.
        together: constants that are laid out so that as many elements along that dimension follow
            each other in memory.
        layout: of all tiles; None: each has a decision of its own.
    """
    caches = []
    for tensor in tensors_read(inner.op):
        if not tensor.ndim:  # one number, which has no place to be looked for
            continue
        cache = cache_id(state.program, inner.id)
        caches.append(cache)
        known = (dims or {}).get(tensor)
        dim = _spatial_dim(inner, tensor) if known is None else known
        state = state.then(
            CacheRead(state.program.tensor_id(tensor), inner.id, Scope.SHARED.value),
            ComputeAt(cache, inner.id, loops_over_tiles(inner)[-1]),
            *_fill(cache, tensor, dim, (together or {}).get(tensor, 1)),
            _shared_tiles(inner, cache, tensor, dim, layout),
        )
        if tensor in (together or {}):
            own = state.program.operation_id(tensor.op)
            state = state.then(Pack(own, dim, cache, (LoopId(dim, 1),)))
    return state.done([host.id, inner.id, *caches])


def _fill(cache: StageId, tensor: Tensor, dim: int, together: int) -> list[Step]:
    """All loops are of threads; innermost those over what lies together along ``dim``."""
    loops = [LoopId(d, 0) for d in range(tensor.ndim)]
    steps: list[Step] = []
    if together > 1:
        loops.append(LoopId(dim, 1))
        steps = [Split(cache, dim, (together,)), Reorder(cache, tuple(loops))]
    return [*steps, *(Annotate(cache, loop, LoopKind.THREAD.value) for loop in loops)]


def _shared_tiles(
    inner: StagePlan, cache: StageId, tensor: Tensor, dim: int, layout: int | None
) -> Step:
    """As many tiles of one operand as of the others, each laid out in a way of its own: ``dim`` may
    be the innermost one.
    """
    split = longest(inner.op.reduce_axes)
    count = inner.decision(split, "tiles")
    own: Factor = LoopDecision(cache, tensor.ndim - 1, "layout") if tensor.ndim > 1 else 0
    return SharedTiles(cache, count, dim, own if layout is None else layout)


def _spatial_dim(inner: StagePlan, tensor: Tensor) -> int:
    """The last dimension of an operand that is read by the longest of its spatial axes."""
    found = tensor.ndim - 1
    most = 1
    for load in stage_loads(inner.op):
        if load.tensor.op is not tensor.op or load.tensor.output != tensor.output:
            continue
        for dim, index in enumerate(load.indices):
            form = affine_index(index)
            axes = () if form is None else form[0]
            extent = max((a.extent for a in axes if a in inner.op.axes), default=1)
            if extent >= most and not any(a in inner.op.reduce_axes for a in axes):
                found, most = dim, extent
    return found


def _tile_host(
    host: StagePlan,
    inner: StagePlan,
    batch: frozenset[Axis],
    sizes: Mapping[Axis, int],
    target: Target,
) -> list[Step]:
    name, axes = host.id, host.op.axes
    tiled = [a for a in axes if a not in batch]
    # several small products in a block, each with warps of its own
    several = [a for a in axes if a in batch and a.extent > 1]
    levels = range(1, INNER + 1)
    steps: list[Step] = []
    for a in tiled:
        factors: tuple[Factor, ...] = tuple(host.decision(a, level) for level in levels)
        factors = (*factors, sizes[a]) if a in sizes else factors
        steps.append(Split(name, host.axis(a), factors))
    steps += [Split(name, host.axis(a), (host.decision(a, 1),)) for a in several]
    outside = [*(host.loop(a) for a in axes), *(host.loop(a, 1) for a in (*tiled, *several))]
    inside = [host.loop(a, level) for level in levels[1:] for a in tiled]
    # elements that follow each other in memory stay innermost
    inside[-1:-1] = [host.loop(a, INNER + 1) for a in sizes]
    steps.append(Reorder(name, (*outside, *inside)))
    steps += [Annotate(name, host.loop(a, 1), LoopKind.THREAD.value) for a in several]
    for level, kind in enumerate(_BOUND):
        bound = axes if level == 0 else tiled
        steps += [Annotate(name, host.loop(a, level), kind.value) for a in bound]
    steps += block_order(host, inner, tiled, target)
    unrolled = [*(host.loop(a, INNER) for a in tiled), *(host.loop(a, INNER + 1) for a in sizes)]
    steps += [Annotate(name, loop, LoopKind.UNROLLED.value) for loop in unrolled]
    return [*steps, ComputeAt(inner.id, name, host.loop(tiled[-1], INNER - 1))]


def loops_over_tiles(inner: StagePlan) -> list[LoopId]:
    """The loops over tiles of the reduce axes; the longest axis inside the others."""
    split = longest(inner.op.reduce_axes)
    others = [axis for axis in inner.op.reduce_axes if axis is not split]
    return [inner.loop(axis) for axis in (*others, split)]


def _tile_inner(inner: StagePlan, lanes: bool) -> list[Step]:
    """Every reduce axis in tiles; the innermost loop of the longest one unrolled, and its terms
    shared out among ``lanes`` before the serial loops.
    """
    name, axes = inner.id, inner.op.reduce_axes
    split = longest(axes)
    others = [axis for axis in axes if axis is not split and axis.extent > 1]
    steps: list[Step] = [
        Split(name, inner.axis(axis), (inner.decision(axis, 1),)) for axis in others
    ]
    last = 3 if lanes else 2
    factors = tuple(inner.decision(split, level) for level in range(1, last + 1))
    steps.append(Split(name, inner.axis(split), factors))
    shared = [inner.loop(split, 1)] if lanes else []
    serial = [*(inner.loop(axis, 1) for axis in others), inner.loop(split, last - 1)]
    unrolled = [inner.loop(split, last), *(inner.loop(axis) for axis in inner.op.axes)]
    steps.append(Reorder(name, (*loops_over_tiles(inner), *shared, *serial, *unrolled)))
    steps += [Annotate(name, loop, LoopKind.THREAD.value) for loop in shared]
    return [*steps, *(Annotate(name, loop, LoopKind.UNROLLED.value) for loop in unrolled)]
