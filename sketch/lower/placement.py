"""Where every stage runs: its loops with their trips, and the part of its domain that it computes.

Stages are placed consumers first, because what an attached stage must compute is what the loops
of its consumers read inside the attach loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sketch.analysis.access import affine_index, stage_loads
from sketch.errors import LoweringError
from sketch.lang.affine import UNBOUNDED
from sketch.lang.expr import Axis, Binary, Const, Expr, Load
from sketch.lang.tensor import Operation
from sketch.nest.loopnest import Affine, LoopKind, LoopVar, Num
from sketch.schedule.decision import DecisionId
from sketch.schedule.labels import decision_label, loop_label
from sketch.schedule.loop import LoopId
from sketch.schedule.program import Program, StagePlan, residues_of, tile_of
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Factor, Pack
from sketch.schedule.walks import walk_of


@dataclass(frozen=True, slots=True, eq=False)
class PlacedLoop:
    """One loop of a placed stage; ``trips`` times, in steps of ``stride`` times ``unit``.

    ``unit``: what the variable counts, in coordinates of the axis: more than one around tiles of a
    size by which indices divide the axis, so that quotients are affine in it.
    ``fixed``: no decision takes part in these numbers.
    """

    id: LoopId
    axis: Axis
    var: LoopVar
    trips: Num
    stride: Num
    kind: LoopKind
    fixed: bool
    unit: int = 1

    @property
    def reach(self) -> Num:
        """Largest value of the loop variable."""
        return (self.trips - 1) * self.stride


@dataclass(frozen=True, slots=True, eq=False)
class PlacedStage:
    """A stage with concrete loops.

    Attributes:
        loops: outermost first.
        outer: variables of the loops around its attach point (of other stages).
        base: per spatial axis, the first coordinate it computes, over ``outer``.
        extents: per axis, how many coordinates its loops walk (a multiple of the inner tiles).
        fixed: the axes whose extents no decision takes part in.
        coordinates: of each axis in the whole domain: its base and the sum of its loop variables.
    """

    plan: StagePlan
    loops: tuple[PlacedLoop, ...]
    outer: tuple[LoopVar, ...]
    base: Mapping[Axis, Affine]
    extents: Mapping[Axis, Num]
    fixed: frozenset[Axis]
    coordinates: Mapping[Axis, Affine]

    def coordinate(self, axis: Axis) -> Affine:
        """Coordinate of ``axis`` in the whole domain."""
        return self.coordinates[axis]

    def variables(self, loops: tuple[LoopId, ...]) -> frozenset[LoopVar]:
        """The variables of some of its loops."""
        return frozenset(loop.var for loop in self.loops if loop.id in loops)


@dataclass(frozen=True, slots=True)
class PackedGroup:
    """``size`` elements along dimension ``dim`` of a packed tensor, which lie together.

    ``var``: that walks them.
    """

    dim: int
    size: int
    var: LoopVar


class Walked(NamedTuple):
    """``elements`` along dimension ``dim`` of a tensor."""

    dim: int
    elements: Num


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """All stages of a program, placed; in topological order."""

    program: Program
    stages: Mapping[StageId, PlacedStage]
    values: Mapping[DecisionId, Num]

    def walked(self, pack: Pack) -> Walked | None:
        """What the sum of the reader walks before it reads other parts of a panel; None: all."""
        walk = walk_of(self.program, pack)
        if walk is None:
            return None
        reader = self.stages[pack.reader]
        if walk.loop is not None:
            (count,) = (loop.stride for loop in reader.loops if loop.id == walk.loop)
            return Walked(walk.dim, count)
        return Walked(walk.dim, self.program.operation(pack.tensor).shape[walk.dim])

    def number(self, factor: Factor) -> Num:
        """The number behind a factor; raises LoweringError when its decision has no value."""
        return factor_value(factor, self.values, self.program)

    def panel_width(self, pack: Pack) -> Num:
        """Elements in a panel: the product of the trips of the reader's loops within a panel."""
        width: Num = 1
        for loop in self.stages[pack.reader].loops:
            if loop.id in pack.loops:
                width = width * loop.trips
        return width

    def packed_group(self, pack: Pack) -> PackedGroup | None:
        """What a tensor unit of the reader takes of a packed tensor at a time."""
        op, reader = self.program.operation(pack.tensor), self.stages[pack.reader]
        units = [x for x in reader.loops if x.kind is LoopKind.TENSOR and x.axis.kind == "reduce"]
        taken = [x for x in units if int(x.stride) == 1]
        for load in loads_of(reader.plan, op):
            for dim, index in enumerate(load.indices):
                for loop in taken:
                    if index is loop.axis and dim != pack.dim:
                        return PackedGroup(dim, int(loop.trips), loop.var)
        return None

    def attached(self, stage: StageId, loop: LoopId) -> tuple[PlacedStage, ...]:
        """Stages computed inside a loop of a stage, in topological order."""
        return tuple(s for s in self.stages.values() if s.plan.attach == (stage, loop))


def place(
    program: Program, values: Mapping[DecisionId, Num], wanted: frozenset[StageId] = frozenset()
) -> Placement:
    """Place every stage of ``program`` for the decisions ``values`` (ints, or arrays ``[P]``).

    ``wanted``: no other stages are needed than these; none: all.

    Raises LoweringError when a decision has no value or an attachment cannot work.
    """
    placed: dict[StageId, PlacedStage] = {}
    for plan in reversed(program.stages):
        if wanted and wanted <= placed.keys():
            break
        domain = _domain(program, plan, placed)
        loops, walked = _loops(program, plan, domain, values)
        fixed = frozenset(loop.axis for loop in loops if loop.fixed)
        where = _coordinates(loops, domain.base)
        placed[plan.id] = PlacedStage(plan, loops, domain.outer, domain.base, walked, fixed, where)
    return Placement(
        program, {p.id: placed[p.id] for p in program.stages if p.id in placed}, values
    )


def _coordinates(loops: tuple[PlacedLoop, ...], base: Mapping[Axis, Affine]) -> dict[Axis, Affine]:
    terms: dict[Axis, list[tuple[LoopVar, int]]] = {}
    for loop in loops:
        terms.setdefault(loop.axis, []).append((loop.var, loop.unit))
    local = {axis: Affine(tuple(own)) for axis, own in terms.items()}
    return {axis: base[axis] + own if axis in base else own for axis, own in local.items()}


@dataclass(frozen=True, slots=True)
class _Window:
    """The values ``start .. start + extent - 1`` of an index; whether decisions take part in it."""

    start: Affine
    extent: Num
    fixed: bool


@dataclass(frozen=True, slots=True)
class _Domain:
    """What a stage computes: base and extent per axis, and the loops around its attach point.

    ``varying``: the axes whose extents decisions take part in.
    """

    base: Mapping[Axis, Affine]
    extents: Mapping[Axis, Num]
    outer: tuple[LoopVar, ...]
    varying: frozenset[Axis]


def _domain(program: Program, plan: StagePlan, placed: Mapping[StageId, PlacedStage]) -> _Domain:
    full: dict[Axis, Num] = {a: a.extent for a in plan.op.all_axes}
    if plan.attach is None:
        return _Domain({}, full, (), frozenset())
    host = placed.get(plan.attach[0])
    if host is None:
        raise LoweringError(
            f"stage {plan.op.name} is attached to {program.label(plan.attach[0])}, which does not "
            "come after it",
            hint="attach a stage to one of its consumers",
        )
    loops = [loop.id for loop in host.loops]
    if plan.attach[1] not in loops:
        raise LoweringError(
            f"stage {plan.op.name} is attached to loop {host.plan.labels([plan.attach[1]])} of "
            f"{host.plan.op.name}, which has no such loop any more",
            hint="attach stages after the steps that make their hosts",
        )
    around = host.loops[: loops.index(plan.attach[1]) + 1]
    outer = (*host.outer, *(loop.var for loop in around))
    fixed = outer
    if plan.shared:
        # One copy serves all threads of the block, so it must cover what every one of them reads.
        kinds = {loop.var: loop.kind for s in placed.values() for loop in s.loops}
        fixed = tuple(v for v in outer if kinds[v] not in (LoopKind.THREAD, LoopKind.VTHREAD))
    region = _region(program, plan, placed, fixed)
    full |= {axis: window.extent for axis, window in region.items()}
    base = {axis: window.start for axis, window in region.items()}
    varying = frozenset(axis for axis, window in region.items() if not window.fixed)
    return _Domain(base, full, outer, varying)


def _region(
    program: Program,
    plan: StagePlan,
    placed: Mapping[StageId, PlacedStage],
    standing: tuple[LoopVar, ...],
) -> dict[Axis, _Window]:
    """What consumers read of ``plan``'s stage while the variables ``standing`` stand still."""
    fixed = frozenset(standing)
    loops = {loop.var: loop for s in placed.values() for loop in s.loops}
    merged: dict[Axis, _Window | None] = {}
    for consumer in program.consumers(plan.op):
        stage = placed[consumer.id]
        if not _inside(stage, standing):
            raise LoweringError(
                f"stage {plan.op.name} is attached where its consumer {consumer.op.name} is not",
                hint="all consumers must be computed inside the attach loop",
            )
        for load in loads_of(consumer, plan.op):
            for axis, index in zip(plan.op.axes, load.indices, strict=True):
                window = _window(index, stage, fixed, loops)
                merged[axis] = window if axis not in merged else _union(merged[axis], window)
    whole = {axis: _Window(Affine(()), axis.extent, True) for axis in plan.op.axes}
    return {axis: merged.get(axis) or whole[axis] for axis in plan.op.axes}


def _inside(stage: PlacedStage, outer: tuple[LoopVar, ...]) -> bool:
    around = {*stage.outer, *(loop.var for loop in stage.loops)}
    return all(var in around for var in outer)


def loads_of(plan: StagePlan, producer: Operation) -> list[Load]:
    """Every read of ``producer`` in the bodies of a stage."""
    return [load for load in stage_loads(plan.op) if load.tensor.op is producer]


def index_affine(index: Expr, stage: PlacedStage) -> Affine | None:
    """An index expression over the axes of ``stage`` as an affine form over loop variables."""
    axes = stage.plan.op.all_axes
    form = affine_index(index, axes)
    if form is None:
        return _tile_index(index, stage)
    coefficients, const = form
    sums: dict[LoopVar, int] = {}
    for axis, coefficient in coefficients.items():
        coordinate = stage.coordinates[axis]
        const += coordinate.const * coefficient
        for var, factor in coordinate.terms:
            sums[var] = sums.get(var, 0) + factor * coefficient
            if not sums[var]:
                del sums[var]
    return Affine(tuple(sums.items()), const)


def _tile_index(index: Expr, stage: PlacedStage) -> Affine | None:
    """``index_affine`` of sums of quotients and remainders by the sizes of tiles."""
    match index:
        case Binary("add" | "sub" as op, lhs, rhs, "int64"):
            left, right = index_affine(lhs, stage), index_affine(rhs, stage)
            if left is None or right is None:
                return None
            return left + right.scale(1 if op == "add" else -1)
        case Binary("mul", inner, Const(value), "int64") | Binary(
            "mul", Const(value), inner, "int64"
        ):
            form = index_affine(inner, stage)
            return None if form is None else form.scale(int(value))
        case Binary("floordiv" | "mod" as op, Axis() as axis, Const(value)):
            if tile_of(stage.plan, stage.plan.axis(axis))[1] != value or axis in stage.base:
                return None
            return _quotient(stage, axis, op, int(value), UNBOUNDED)
        case Binary(
            "floordiv" | "mod" as op,
            Binary("mod", Axis() as axis, Const(size)) as tile,
            Const(value),
        ):
            known = residues_of(stage.plan, stage.plan.axis(axis))[1] == value
            known = known and index_affine(tile, stage) is not None
            return _quotient(stage, axis, op, int(value), int(size)) if known else None
    return None


def _quotient(stage: PlacedStage, axis: Axis, op: str, value: int, below: int) -> Affine:
    """The quotient or the remainder of what loops walk whose variables count less than ``below``.

    Variables around tiles count tiles of ``value`` coordinates.
    """
    loops = [x for x in stage.loops if x.axis is axis and x.unit < below]
    if op == "floordiv":
        return Affine(tuple((x.var, x.unit // value) for x in loops if x.unit >= value))
    return Affine(tuple((x.var, x.unit) for x in loops if x.unit < value))


def _window(
    index: Expr,
    stage: PlacedStage,
    fixed: frozenset[LoopVar],
    loops: Mapping[LoopVar, PlacedLoop],
) -> _Window | None:
    """The values of ``index``, or None where only the whole range is safe."""
    form = index_affine(index, stage)
    if form is None:
        return None
    extent: Num = 1
    constant = True
    for var, coefficient in form.terms:
        if var in fixed:
            continue
        if coefficient < 0:
            return None
        extent = extent + loops[var].reach * coefficient
        constant = constant and loops[var].fixed
    outer = tuple((v, c) for v, c in form.terms if v in fixed)
    return _Window(Affine(outer, form.const), extent, constant)


def _union(a: _Window | None, b: _Window | None) -> _Window | None:
    """The hull of two windows whose starts differ by a constant."""
    if a is None or b is None or dict(a.start.terms) != dict(b.start.terms):
        return None
    start = min(a.start.const, b.start.const)
    ends = (a.extent + (a.start.const - start), b.extent + (b.start.const - start))
    extent: Num = (
        max(ends[0], ends[1])
        if isinstance(ends[0], int) and isinstance(ends[1], int)
        else np.maximum(*ends)
    )
    return _Window(Affine(a.start.terms, start), extent, a.fixed and b.fixed)


def factor_value(factor: Factor, values: Mapping[DecisionId, Num], program: Program) -> Num:
    """The number behind a factor; raises LoweringError when its decision has no value."""
    if isinstance(factor, int):
        return factor
    if factor not in values:
        given = sorted(decision_label(decision, program) for decision in values)
        raise LoweringError(
            f"no value for decision {decision_label(factor, program)!r}", hint=f"given: {given}"
        )
    return values[factor]


def _loops(
    program: Program, plan: StagePlan, domain: _Domain, values: Mapping[DecisionId, Num]
) -> tuple[tuple[PlacedLoop, ...], dict[Axis, Num]]:
    """Loops in execution order, and the coordinates that the loops of each axis walk."""
    made: dict[LoopId, PlacedLoop] = {}
    walked: dict[Axis, Num] = {}
    for position, axis in enumerate(plan.op.all_axes):
        split = plan.splits.get(position, ())
        fixed = axis not in domain.varying and all(isinstance(f, int) for f in split)
        factors = [factor_value(f, values, program) for f in split]
        stride: Num = 1
        unit = 1
        tiles = dict((residues_of(plan, position), tile_of(plan, position)))
        for level in range(len(factors), -1, -1):
            if level in tiles and level >= 0:
                stride, unit = 1, tiles[level]
            trips = factors[level - 1] if level else -(-domain.extents[axis] // (stride * unit))
            loop = LoopId(position, level)
            kind = plan.kinds.get(loop, LoopKind.SERIAL)
            var = LoopVar(f"{plan.op.name}.{loop_label(plan.op, loop)}", axis=axis, unit=unit)
            made[loop] = PlacedLoop(loop, axis, var, trips, stride, kind, fixed, unit)
            stride = stride * trips
        walked[axis] = stride * unit
    return tuple(made[loop] for loop in plan.loops()), walked
