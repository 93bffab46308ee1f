"""Multi-level tiling of a reduction, fused with its element-wise consumer.

A structure names the tile levels from outside in, S for spatial and R for reduce loops.  The last
S is the register tile; those before the first R belong to the consumer, the outermost is parallel.

    structure "SSSRS":                       structure "SSRSRS":
      parallel S0 of the consumer              parallel S0 of the consumer
        S1, S2                                   S1
          acc = 0        (register tile)           acc = 0           (tile in cache)
          R: acc += ...  (S3 unrolled)             R0, S2, R1: acc += ...  (S3 unrolled)
          consumer on the register tile            consumer on the tile
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from sketch.analysis.access import needs_tiling
from sketch.errors import ScheduleError
from sketch.lang.expr import Axis
from sketch.nest.loopnest import LoopKind
from sketch.rules.packing import Panel, packing_choices
from sketch.rules.patterns import (
    batch_positions,
    fusable_consumer,
    lanes_for,
    longest,
    vector_axis,
)
from sketch.rules.rule import State, Verdict
from sketch.rules.unit_fit import Fit
from sketch.schedule.loop import LoopId
from sketch.schedule.program import Program, StagePlan
from sketch.schedule.steps import (
    Annotate,
    ComputeAt,
    Factor,
    Reorder,
    Split,
    Step,
    Tensorize,
)

REGISTER_TILE: Final = "SSSRS"
CACHE_TILE: Final = "SSRSRS"
_STRUCTURE: Final = re.compile(r"(S+)R(SR)?S")


@dataclass(frozen=True, slots=True)
class MultiLevelTilingWithFusion:
    """Tile the reduction that ``stage`` reads element by element, and compute it inside.

    Attributes:
        structures: tile structures for stages with data reuse; others take the first.
    """

    structures: tuple[str, ...] = (REGISTER_TILE, CACHE_TILE)

    eager: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for structure in self.structures:
            if _STRUCTURE.fullmatch(structure) is None:
                raise ScheduleError(
                    f"no tile structure {structure!r}",
                    hint='one or more S, then "RS" or "RSRS", such as SSSRS or SSRSRS',
                )

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Spatial stages that read a pending reduction element by element."""
        found = tiled_producer(state, stage)
        return Verdict.SKIP if found is None else Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state per structure, order of the outer tiles, and way to pack operands."""
        producer = tiled_producer(state, stage)
        assert producer is not None
        reuse = needs_tiling(producer.op)
        several = len([a for a in producer.op.axes if a.extent > 1]) > 1
        states: list[State] = []
        for structure in self.structures if reuse else self.structures[:1]:
            for vector_outside in (True, False) if reuse and several else (False,):
                tiling = Tiling(state, stage, producer, structure, vector_outside)
                states += packing_choices(tiling.apply(), producer.id, tiling.panel())
        return tuple(states)


def tiled_producer(state: State, stage: StagePlan) -> StagePlan | None:
    """The pending reduction that ``stage`` can be fused with; the one with data reuse first."""
    program: Program = state.program
    if stage.op.reduce is not None:
        return None
    found = [
        p
        for p in program.stages
        if p.op.reduce is not None
        and p.id not in state.scheduled
        and vector_axis(p.op) is not None
        and fusable_consumer(program, p) is stage
    ]
    return max(found, key=lambda p: needs_tiling(p.op), default=None)


@dataclass(frozen=True, slots=True)
class Tiling:
    """The steps of one tiling.

    Attributes:
        state: before them.
        host: the consumer.
        inner: the reduction.
        structure: of its tiles.
        vector_outside: whether tiles of the vector axis are walked outside those of the others.
        nested: whether the consumer is computed inside another nest, where nothing is parallel;
            the axes of a batch are walked outside of all tiles then.
        blocks: axes of the consumer, blocks of which are walked outside of all else, in parallel,
            so that an operand can be computed for one at a time; empty: no such blocks.
        shared: those of them that threads share, where the others are walked inside, one block
            after the other; empty: all of them.
        panel_trips: vectors in a panel, where the nest around is made of panels; None: a decision
            of the consumer.
        unit: the tensor unit that computes it, and along which axes; None: plain vectors.
    """

    state: State
    host: StagePlan
    inner: StagePlan
    structure: str
    vector_outside: bool
    nested: bool = False
    blocks: frozenset[Axis] = frozenset()
    shared: frozenset[Axis] = frozenset()
    panel_trips: Factor | None = None
    unit: Fit | None = None

    def apply(self) -> State:
        host, inner = self.host.id, self.inner.id
        state = self.state.then(*self._split_host())
        around = self.structure.index("R")
        outer = [loop for level in range(around) for loop in self._host_level(level)]
        rest = [x for level in range(around, self._last) for x in self._host_level(level)]
        tile = self._host_level(self._last)
        vector = self._vector_pair()[0]
        lane = self.host.loop(vector, self._last + 1)
        rows = [self.host.loop(a, self._last + 1) for a in self.host.op.axes if self._rows(a) > 1]
        if self.unit is not None and self.unit.unit.tiles:  # many rows would be much code
            order = (*outer, *rest, *rows, *tile, lane)
        else:
            tile += rows
            order = (*outer, *rest, *tile, lane)
        parallel = [] if self.nested else self._parallel()
        state = state.then(
            Reorder(host, order),
            *(Annotate(host, loop, LoopKind.PARALLEL.value) for loop in parallel),
            *(Annotate(host, loop, LoopKind.UNROLLED.value) for loop in tile),
            Annotate(host, lane, LoopKind.VECTORIZED.value),
            ComputeAt(inner, host, outer[-1]),
        )
        return state.then(*self._schedule_inner()).done([host, inner])

    @property
    def _last(self) -> int:
        """Level of the register tile in the consumer."""
        return self.structure.count("S") - 1

    @property
    def _in_registers(self) -> bool:
        """Whether the whole reduction runs on one register tile."""
        return self.structure.count("R") == 1

    def panel(self) -> Panel:
        """The loops of the reduction that walk the vector axis within a register tile."""
        host_axis, axis = self._vector_pair()
        first = 0 if self._in_registers else 1
        loops = (self.inner.loop(axis, first), self.inner.loop(axis, first + 1))
        factors = (self._names(host_axis)[-1], self._lanes())
        if self.unit is None:
            return Panel(axis, loops, factors)
        return Panel(axis, loops, factors, self.unit.terms, self.unit.unit.together)

    def _vector_pair(self) -> tuple[Axis, Axis]:
        axis = vector_axis(self.host.op)
        assert axis is not None
        position = [a is axis for a in self.host.op.axes].index(True)
        return axis, self.inner.op.axes[position]

    def _lanes(self) -> int:
        if self.unit is not None:
            return self.unit.unit.columns
        return lanes_for(self._vector_pair()[0], self.inner.op, self.state.target)

    def _rows(self, axis: Axis) -> int:
        """Rows that the tensor unit computes at a time along an axis of the consumer; 1: none."""
        if self.unit is None or self.unit.rows is None:
            return 1
        pairs = zip(self.host.op.axes, self.inner.op.axes, strict=True)
        return self.unit.height if any(a is axis and b is self.unit.rows for a, b in pairs) else 1

    @property
    def _batch_outside(self) -> bool:
        """Whether the axes of a batch are walked outside of all tiles."""
        return self.nested or bool(self.blocks)

    def _is_split(self, axis: Axis) -> bool:
        axes = self.host.op.axes if axis in self.host.op.axes else self.inner.op.axes
        inner = self.inner.op
        batch = batch_positions(inner, 0) if self._batch_outside else batch_positions(inner)
        return axis.extent > 1 and axes.index(axis) not in batch

    def _names(self, axis: Axis) -> tuple[Factor, ...]:
        levels = range(1, self._last + 1)
        found = tuple(self.host.decision(axis, level) for level in levels)
        if self.panel_trips is None or axis is not self._vector_pair()[0]:
            return found
        return (*found[:-1], self.panel_trips)

    def _split_host(self) -> list[Step]:
        vector = self._vector_pair()[0]
        steps: list[Step] = []
        for axis in self.host.op.axes:
            if axis is vector:
                factors = (*self._names(axis), self._lanes())
                steps.append(Split(self.host.id, self.host.axis(axis), factors))
            elif self._is_split(axis):
                rows = (self._rows(axis),) if self._rows(axis) > 1 else ()
                factors = (*self._names(axis), *rows)
                steps.append(Split(self.host.id, self.host.axis(axis), factors))
        return steps

    def _parallel(self) -> list[LoopId]:
        """The outermost loops, or those of them that walk blocks."""
        axis, wanted = self.host.loop_axis, self.shared or self.blocks
        return [x for x in self._host_level(0) if not wanted or axis(x) in wanted]

    def _host_level(self, level: int) -> list[LoopId]:
        """The loops of one tile level, the vector axis outside or inside the others."""
        vector = self._vector_pair()[0]
        axes = [a for a in self.host.op.axes if a is not vector]
        around = [a for a in axes if self._batch_outside and not self._is_split(a)]
        around += [a for a in axes if a in self.blocks and self._is_split(a)]
        around.sort(key=lambda a: bool(self.blocks) and a not in self.blocks)  # blocks outside
        first = [self.host.loop(a) for a in around] if level == 0 else []
        others = [
            self.host.loop(a, level)
            for a in axes
            if (self._is_split(a) or (level == 0 and not self._batch_outside))
            and not (level == 0 and a in around)
        ]
        mine = [self.host.loop(vector, level)]
        inside = mine + others if self.vector_outside and level < self._last else others + mine
        return first + inside

    def _schedule_inner(self) -> list[Step]:
        inner, register = self.inner, self._in_registers
        name = inner.id
        vector = self._vector_pair()[1]
        steps: list[Step] = []
        cache_loops, tile_loops, unit_loops = [], [], list[LoopId]()
        for host_axis, axis in zip(self.host.op.axes, inner.op.axes, strict=True):
            factors: tuple[Factor, ...] = () if register else (self._names(host_axis)[-1],)
            if axis is vector:
                factors = (*factors, self._lanes())
            elif not self._is_split(axis):
                factors = ()
            elif self._rows(host_axis) > 1:
                unit_loops.append(inner.loop(axis, len(factors) + 1))
                factors = (*factors, self._rows(host_axis))
            if factors:
                steps.append(Split(name, inner.axis(axis), factors))
            if factors and not register:
                cache_loops.append(inner.loop(axis))
            tile = 1 if factors and not register else 0
            if axis is not vector:
                tile_loops.append(inner.loop(axis, tile))
        first = 0 if register else 1
        tile_loops.append(inner.loop(vector, first))
        outer_reduce, inner_reduce, splits = self._reduce_loops()
        lane = inner.loop(vector, first + 1)
        if self.unit is not None:
            levels, own = len(splits[0].factors), len(self.unit.taken)
            unit_loops += [
                inner.loop(self.unit.terms, n) for n in range(levels - own + 1, levels + 1)
            ]
        order = (*outer_reduce, *cache_loops, *inner_reduce, *tile_loops, *unit_loops, lane)
        steps += [*splits, Reorder(name, order)]
        unrolled = [inner_reduce[-1], *tile_loops]
        steps += [Annotate(name, loop, LoopKind.UNROLLED.value) for loop in unrolled]
        steps.append(Annotate(name, lane, LoopKind.VECTORIZED.value))
        return [*steps, Tensorize(name, tuple(unit_loops))] if unit_loops else steps

    def _reduce_loops(self) -> tuple[list[LoopId], list[LoopId], list[Split]]:
        """Loops around the cache tile, loops inside it (the last one unrolled), and the split."""
        inner, axes = self.inner, self.inner.op.reduce_axes
        split = longest(axes) if self.unit is None else self.unit.terms
        taken = () if self.unit is None else self.unit.taken
        unroll = inner.decision(split, "unroll")
        others = [inner.loop(a) for a in axes if a is not split]
        if self._in_registers:
            inside = [*others, inner.loop(split), inner.loop(split, 1)]
            return [], inside, [Split(inner.id, inner.axis(split), (unroll, *taken))]
        factors: tuple[Factor, ...] = (inner.decision(split, 1), unroll, *taken)
        inside = [*others, inner.loop(split, 1), inner.loop(split, 2)]
        return [inner.loop(split)], inside, [Split(inner.id, inner.axis(split), factors)]
