"""Which tensor unit computes a contraction, and along which axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from sketch.analysis.contraction import Contraction, contraction_of
from sketch.lang.expr import Axis, Load
from sketch.lang.tensor import Compute, Placeholder
from sketch.rules.patterns import longest, vector_axis
from sketch.schedule.program import Program, StagePlan
from sketch.schedule.sketch import Sketch
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Tensorize
from sketch.target.units import TensorUnit


@dataclass(frozen=True, slots=True)
class Fit:
    """A unit for a stage; its n are along the axis of the vectors.

    Attributes:
        unit: the tensor unit.
        rows: the spatial axis along which a unit computes several rows; None: it computes one.
        terms: the reduce axis of which a unit adds several products.
    """

    unit: TensorUnit
    rows: Axis | None
    terms: Axis

    @property
    def height(self) -> int:
        """Rows that a unit computes at a time; where it may be fewer than it can, as many as leave
        the last time the fewest to spare.
        """
        if self.rows is None or not self.unit.tiles:
            return self.unit.m
        return _even_part(self.rows.extent, self.unit.m)

    @property
    def taken(self) -> tuple[int, ...]:
        """Products that a unit adds at a time, as factors of ``terms``, outermost first; the last
        are those whose elements lie together.
        """
        together = self.unit.together
        if not self.unit.tiles:
            return (together,)
        return (-(-_even_part(self.terms.extent, self.unit.k) // together), together)

    @property
    def idle(self) -> float:
        """Share of the unit that has nothing to add where the terms end within a group."""
        size = prod(self.taken)
        groups = -(-self.terms.extent // size)
        return 1.0 - self.terms.extent / (groups * size)


def _even_part(extent: int, most: int) -> int:
    """The largest of the fewest parts of an extent that have at most ``most`` each."""
    return -(-extent // -(-extent // most))


def fits_of(program: Program, stage: StagePlan, units: Iterable[TensorUnit]) -> tuple[Fit, ...]:
    """How units can compute a stage: it multiplies elements of the types that a unit does, what one
    unit takes of the first operand lies together, and the second can be packed so: ahead of time
    where it is a constant, else by a stage that several rows pay for, of one whole group at least.
    """
    found = contraction_of(stage.op)
    if found is None or not _is_packed(program, stage, found):
        return ()
    terms = [a for a in found.terms if _taken_together(found, a)]
    rows = [a for a in found.rows if a.extent > 1]
    if not terms:
        return ()
    fits = (
        Fit(unit, longest(tuple(rows)) if unit.m > 1 else None, longest(tuple(terms)))
        for unit in units
        if _computes(unit, found) and _pays(unit, rows, terms)
    )
    if _is_constant(found):
        return tuple(fits)
    return tuple(fit for fit in fits if rows and fit.terms.extent >= prod(fit.taken))


def _pays(unit: TensorUnit, rows: list[Axis], terms: list[Axis]) -> bool:
    """Whether a unit of several rows has such; one with tile registers also several groups."""
    if unit.m > 1 and not rows:
        return False
    return not unit.tiles or max(axis.extent for axis in terms) > unit.together


def turned_operand(program: Program, stage: StagePlan) -> StageId | None:
    """The stage that brings elements of the first operand into another order, for this stage alone:
    where they are, units may find more of them together.
    """
    found = contraction_of(stage.op)
    source = None if found is None else found.lhs.load.tensor.op
    if not isinstance(source, Compute) or len(program.consumers(source)) != 1:
        return None
    body, plan = source.bodies[0], program.plan_of(source)
    if not isinstance(body, Load) or plan is None:
        return None
    places = [source.axes.index(i) if isinstance(i, Axis) else -1 for i in body.indices]
    whole = sorted(places) == list(range(len(source.axes)))
    return plan.id if whole and places != sorted(places) else None


def unit_of(sketch: Sketch, units: Iterable[TensorUnit]) -> TensorUnit | None:
    """The one of some units that a sketch computes a contraction on; None: it has plain vectors."""
    for step in sketch.steps:
        if isinstance(step, Tensorize):
            plan = sketch.program.stage(step.stage)
            found = contraction_of(plan.op)
            fitting = (u for u in units if found is not None and _computes(u, found))
            return next((u for u in fitting if _is_of(u, sketch.program, plan, step)), None)
    return None


def _is_of(unit: TensorUnit, program: Program, plan: StagePlan, step: Tensorize) -> bool:
    """Whether the loops of a step are those of a unit: on CPUs by its rows, in warps by its terms
    and by how lanes share out its results.
    """
    if unit.fragments is not None:
        terms = all(plan.splits[loop.axis][loop.level - 1] == unit.k for loop in step.loops)
        assert plan.attach is not None
        tiles = program.stage(plan.attach[0]).splits.values()
        found = {tuple(f for f in factors if isinstance(f, int)) for factors in tiles}
        results = unit.fragments[2]
        parts = {tuple(part.extent for part in results.along(side)) for side in ("m", "n")}
        return terms and parts <= found
    several = any(plan.loop_axis(loop).kind == "spatial" for loop in step.loops)
    return (unit.m > 1) == several


def _is_packed(program: Program, stage: StagePlan, found: Contraction) -> bool:
    """Whether the second operand can be packed: a constant for this stage alone, or a copy."""
    source, vector = found.rhs.load.tensor.op, vector_axis(stage.op)
    plain = vector is not None and found.rhs.plain_dim(vector) is not None
    return plain and (not _is_constant(found) or len(program.consumers(source)) == 1)


def _is_constant(found: Contraction) -> bool:
    source = found.rhs.load.tensor.op
    return isinstance(source, Placeholder) and source.constant


def _taken_together(found: Contraction, axis: Axis) -> bool:
    return found.lhs.is_contiguous(axis) and found.rhs.plain_dim(axis) is not None


def computes(unit: TensorUnit, lhs: str, rhs: str, acc: str) -> bool:
    """Whether a unit computes with such types.

    Args:
        unit: the tensor unit.
        lhs: of what its first operand is multiplied as.
        rhs: of the second one.
        acc: of products and sums.
    """
    # there are many units, and few of a type
    return (unit.factor, unit.acc) == (lhs, acc) and _described(unit) == (lhs, rhs, acc)


def _computes(unit: TensorUnit, found: Contraction) -> bool:
    """Whether a unit multiplies and adds what the stage does."""
    return computes(unit, *_types(found))


@lru_cache(maxsize=512)  # every stage that is tiled asks
def _described(unit: TensorUnit) -> tuple[str, str, str] | None:
    (acc,) = unit.description().stages
    own = contraction_of(acc)
    return None if own is None else _types(own)


def _types(found: Contraction) -> tuple[str, str, str]:
    return found.lhs.kind, found.rhs.kind, found.dtype
