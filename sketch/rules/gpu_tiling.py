"""Multi-level tiling for GPUs: SSSRRSRS with operands in shared memory.

The consumer's loops are bound to blocks and threads; the reduction runs inside a thread.

    block S0, virtual thread S1, thread S2 of the consumer
      acc = 0                                        (registers)
      R0:  A.cache, B.cache <- tiles of A and B      (shared memory, all threads together)
        R1, S3, R2, S4:  acc += A.cache * B.cache
      S3, S4: consumer of acc
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from sketch.analysis.access import stage_loads
from sketch.lang.expr import Axis
from sketch.nest.loopnest import LoopKind, Scope
from sketch.rules.gpu_reuse import shares_operands
from sketch.rules.patterns import batch_positions, longest
from sketch.rules.rule import State, Verdict
from sketch.rules.tiling import tiled_producer
from sketch.schedule.decision import decision_name
from sketch.schedule.loop import loop_name
from sketch.schedule.program import StagePlan
from sketch.schedule.stage_names import cache_axis
from sketch.schedule.stage_steps import cache_name
from sketch.schedule.steps import Annotate, CacheRead, ComputeAt, Reorder, Split, Step

_BOUND: Final = (LoopKind.BLOCK, LoopKind.VTHREAD, LoopKind.THREAD)
# Tile levels of the consumer inside one thread: S3 and S4.
_INNER: Final = (3, 4)


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
        state = state.then(*_tile_host(stage, inner), *_tile_inner(stage, inner))
        tensors = {load.tensor.name: load.tensor for load in stage_loads(inner.op)}
        caches = []
        for name, tensor in tensors.items():
            cache = cache_name(state.program, name, inner.op.name)
            dims = [loop_name(cache_axis(d), 0) for d in range(tensor.ndim)]
            caches.append(cache)
            state = state.then(
                CacheRead(name, inner.op.name, Scope.SHARED.value),
                ComputeAt(cache, inner.op.name, loop_name(longest(inner.op.reduce_axes).name, 0)),
                *(Annotate(cache, dim, LoopKind.THREAD.value) for dim in dims),
            )
        return (state.done([stage.op.name, inner.op.name, *caches]),)


def _tile_host(host: StagePlan, inner: StagePlan) -> list[Step]:
    name, axes = host.op.name, [a.name for a in host.op.axes]
    tiled = [a.name for a, _ in _tiled_pairs(host, inner)]
    levels = range(1, 5)
    steps: list[Step] = [
        Split(name, a, tuple(decision_name(name, a, level) for level in levels)) for a in tiled
    ]
    inside = [loop_name(a, level) for level in levels for a in tiled]
    steps.append(Reorder(name, (*(loop_name(a, 0) for a in axes), *inside)))
    for level, kind in enumerate(_BOUND):
        bound = axes if level == 0 else tiled
        steps += [Annotate(name, loop_name(a, level), kind.value) for a in bound]
    steps += [
        Annotate(name, loop_name(a, level), LoopKind.UNROLLED.value)
        for level in _INNER
        for a in tiled
    ]
    return [*steps, ComputeAt(inner.op.name, name, loop_name(tiled[-1], 2))]


def _tiled_pairs(host: StagePlan, inner: StagePlan) -> list[tuple[Axis, Axis]]:
    """The axes to tile, of the consumer and of the reduction: tiles along an axis that all operands
    depend on (a batch, the parts of a split reduction) reuse nothing.
    """
    batch = batch_positions(inner.op)
    pairs = zip(host.op.axes, inner.op.axes, strict=True)
    return [pair for n, pair in enumerate(pairs) if n not in batch]


def _tile_inner(host: StagePlan, inner: StagePlan) -> list[Step]:
    name = inner.op.name
    pairs = _tiled_pairs(host, inner)
    axes = [own.name for _, own in pairs]
    split = longest(inner.op.reduce_axes).name
    others = [loop_name(a.name, 0) for a in inner.op.reduce_axes if a.name != split]
    steps: list[Step] = [
        Split(name, own.name, (decision_name(host.op.name, theirs.name, 4),))
        for theirs, own in pairs
    ]
    reduce_levels = tuple(decision_name(name, split, level) for level in (1, 2))
    steps.append(Split(name, split, reduce_levels))
    batch = [loop_name(a.name, 0) for a in inner.op.axes if a.name not in axes]
    outer_tile = [*batch, *(loop_name(a, 0) for a in axes)]
    inner_tile = [loop_name(a, 1) for a in axes]
    order = (
        loop_name(split, 0),
        *others,
        loop_name(split, 1),
        *outer_tile,
        loop_name(split, 2),
        *inner_tile,
    )
    steps.append(Reorder(name, order))
    unrolled = [*outer_tile, loop_name(split, 2), *inner_tile]
    return [*steps, *(Annotate(name, loop, LoopKind.UNROLLED.value) for loop in unrolled)]
