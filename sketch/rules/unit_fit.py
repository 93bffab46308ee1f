"""Which tensor unit computes a contraction, and along which axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from sketch.analysis.contraction import Contraction, contraction_of
from sketch.lang.expr import Axis
from sketch.lang.tensor import Placeholder
from sketch.rules.patterns import longest, vector_axis
from sketch.schedule.program import Program, StagePlan
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


def fits_of(program: Program, stage: StagePlan, units: Iterable[TensorUnit]) -> tuple[Fit, ...]:
    """How units can compute a stage: it multiplies elements of the types that a unit does, what one
    unit takes of the first operand lies together, and the second is a constant, which is packed so.
    """
    found = contraction_of(stage.op)
    if found is None or not _is_packed(program, stage, found):
        return ()
    terms = [a for a in found.terms if _taken_together(found, a)]
    rows = [a for a in found.rows if a.extent > 1]
    if not terms:
        return ()
    return tuple(
        Fit(unit, longest(tuple(rows)) if unit.m > 1 else None, longest(tuple(terms)))
        for unit in units
        if _computes(unit, found) and (unit.m == 1 or rows)
    )


def _is_packed(program: Program, stage: StagePlan, found: Contraction) -> bool:
    """Whether the second operand can be packed ahead of time, for this stage alone."""
    source, vector = found.rhs.load.tensor.op, vector_axis(stage.op)
    constant = isinstance(source, Placeholder) and source.constant
    plain = vector is not None and found.rhs.plain_dim(vector) is not None
    return constant and plain and len(program.consumers(source)) == 1


def _taken_together(found: Contraction, axis: Axis) -> bool:
    return found.lhs.is_contiguous(axis) and found.rhs.plain_dim(axis) is not None


def _computes(unit: TensorUnit, found: Contraction) -> bool:
    """Whether a unit multiplies and adds what the stage does."""
    return _described(unit) == _types(found)


@lru_cache(maxsize=64)  # every stage that is tiled asks
def _described(unit: TensorUnit) -> tuple[str, str, str] | None:
    (acc,) = unit.description().stages
    own = contraction_of(acc)
    return None if own is None else _types(own)


def _types(found: Contraction) -> tuple[str, str, str]:
    return found.lhs.load.dtype, found.rhs.load.dtype, found.dtype
