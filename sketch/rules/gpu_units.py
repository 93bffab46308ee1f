"""Multi-level tiling of a contraction for the tensor units of a GPU, which warps compute on.

    block S0, warp S1, units S2 of the consumer             (of a batch: S0)
      thread: the lanes of a unit
        acc = 0                                             (registers, a part in each lane)
        R0:  A.cache, B.cache <- tiles of A and B           (shared memory, all threads together)
          R1:  acc += A.cache * B.cache                     (R2, S2 and the lanes: one unit each)
        consumer of the part of acc in each lane

Beside what tiling by threads offers, never in its place.  A lane computes the results that a unit
leaves in it, so what is made of them is code of one thread as elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from sketch.lang.dtypes import size_of
from sketch.lang.expr import Axis
from sketch.nest.loopnest import LoopKind
from sketch.rules.gpu_order import block_order
from sketch.rules.gpu_tiling import loops_over_tiles, read_from_tiles
from sketch.rules.rule import State, Verdict
from sketch.rules.tiling import tiled_producer
from sketch.rules.warp_fit import WarpFit, fits_on_gpu, packed_operands
from sketch.schedule.loop import LoopId
from sketch.schedule.program import StagePlan
from sketch.schedule.steps import (
    TURNED_PIECES,
    Annotate,
    ComputeAt,
    Factor,
    Reorder,
    Split,
    Step,
    Tensorize,
)
from sketch.target.fragments import ROW_BYTES, FragmentPart, UnitAxis
from sketch.target.target import Target
from sketch.target.units import TensorUnit, units_of

# Levels of a tiled axis of the host: blocks, warps (or groups of four), units of each, then the
# parts of a unit.
_WARPS: Final = 1
_UNITS: Final = 2
_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class TileOnWarps:
    """Tile the contraction that ``stage`` reads element by element for the units of a GPU.

    Attributes:
        units: to choose from; None: those of the target.
    """

    units: tuple[TensorUnit, ...] | None = None

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Spatial stages that read a pending contraction that a unit computes."""
        found = tiled_producer(state, stage)
        fits = found is not None and self._fits(state, found)
        return Verdict.APPLY if fits else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """A state for each unit that pays."""
        inner = tiled_producer(state, stage)
        assert inner is not None
        return tuple(_on_unit(state, stage, inner, fit) for fit in self._fits(state, inner))

    def _fits(self, state: State, inner: StagePlan) -> tuple[WarpFit, ...]:
        known = units_of(state.target) if self.units is None else self.units
        return fits_on_gpu(state.program, inner.op, known, state.target.threads)


def _on_unit(state: State, host: StagePlan, inner: StagePlan, fit: WarpFit) -> State:
    steps = _tile_host(host, inner, fit, state.target)
    state = state.then(*steps, *_tile_inner(inner, fit))
    packed = packed_operands(state.program, inner.op, fit)
    layout = TURNED_PIECES if fit.unit.reads_shared else None
    return read_from_tiles(state, host, inner, dict(fit.dims), packed, layout)


def _tile_host(host: StagePlan, inner: StagePlan, fit: WarpFit, target: Target) -> list[Step]:
    name, axes = host.id, host.op.axes
    assert fit.unit.fragments is not None
    sides: tuple[tuple[Axis, UnitAxis], ...] = ((axes[fit.rows], "m"), (axes[fit.columns], "n"))
    lanes: list[tuple[int, LoopId]] = []
    copies: list[tuple[int, LoopId]] = []
    last: list[tuple[int, LoopId]] = []
    steps: list[Step] = []
    for axis, side in sides:
        parts = fit.unit.fragments[2].along(side)
        sizes = tuple(part.extent for part in parts)
        factors: tuple[Factor, ...] = (host.decision(axis, _WARPS), host.decision(axis, _UNITS))
        steps.append(Split(name, host.axis(axis), (*factors, *sizes)))
        for level, part in enumerate(parts, start=_PARTS):
            loop = host.loop(axis, level)
            register = copies if _is_outside_lanes(part, parts) else last
            (lanes if part.home == "lane" else register).append((part.step, loop))
    tiled = [axis for axis, _ in sides]
    warps = [host.loop(axis, _WARPS) for axis in tiled]
    units = [*(host.loop(axis, _UNITS) for axis in tiled), *_in_order(copies)]
    threads, single = _in_order(lanes), _in_order(last)
    blocks = [host.loop(axis) for axis in axes]
    steps.append(Reorder(name, (*blocks, *warps, *units, *threads, *single)))
    kinds = (
        (blocks, LoopKind.BLOCK), (warps, LoopKind.THREAD), (units, LoopKind.VTHREAD),
        (threads, LoopKind.THREAD), (single, LoopKind.UNROLLED),
    )  # fmt: skip
    steps += [Annotate(name, loop, kind.value) for loops, kind in kinds for loop in loops]
    steps += block_order(host, inner, sorted(tiled, key=axes.index), target)
    return [*steps, ComputeAt(inner.id, name, threads[-1])]


def _in_order(homes: list[tuple[int, LoopId]]) -> list[LoopId]:
    """Loops by the step from home to home, the largest first."""
    return [loop for _, loop in sorted(homes, reverse=True)]


def _is_outside_lanes(part: FragmentPart, parts: Iterable[FragmentPart]) -> bool:
    """Whether lanes are between the elements of a part."""
    return any(other.home == "lane" and other.stride < part.stride for other in parts)


def _tile_inner(inner: StagePlan, fit: WarpFit) -> list[Step]:
    """Every reduce axis in tiles; innermost the terms that a unit adds.  A unit that reads shared
    memory by itself finds there the rows of one tile of terms, and of no other.
    """
    name, axes = inner.id, inner.op.reduce_axes
    others = [axis for axis in axes if axis is not fit.terms and axis.extent > 1]
    if fit.unit.reads_shared:
        others = []
    steps: list[Step] = [
        Split(name, inner.axis(axis), (inner.decision(axis, 1),)) for axis in others
    ]
    groups: Factor = inner.decision(fit.terms, 1)
    if fit.unit.reads_shared:  # what lies together in shared memory is one tile
        groups = ROW_BYTES // (fit.unit.k * size_of(fit.unit.lhs))
    steps.append(Split(name, inner.axis(fit.terms), (groups, fit.unit.k)))
    serial = [*(inner.loop(axis, 1) for axis in others), inner.loop(fit.terms, 1)]
    unit, results = inner.loop(fit.terms, 2), [inner.loop(axis) for axis in inner.op.axes]
    steps.append(Reorder(name, (*loops_over_tiles(inner), *serial, unit, *results)))
    steps += [Annotate(name, loop, LoopKind.UNROLLED.value) for loop in results]
    return [*steps, Tensorize(name, (unit,))]
