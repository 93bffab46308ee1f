"""Contractions: which axes of a sum of products belong to which operand."""

from __future__ import annotations

from dataclasses import dataclass

from sketch.analysis.access import AffineForm, affine_index
from sketch.lang.expr import Axis, Binary, Cast, Const, Expr, Load, Select, Unary
from sketch.lang.operator_names import ROUND_TF32
from sketch.lang.reducers import is_sum
from sketch.lang.tensor import Compute


@dataclass(frozen=True, slots=True)
class Multiplicand:
    """A tensor element that is multiplied: how it is read, by an affine form for each index.

    ``rounded``: to tf32.
    """

    load: Load
    forms: tuple[AffineForm, ...]
    rounded: bool = False

    @property
    def kind(self) -> str:
        """The type that it is multiplied as: of the element, or tf32."""
        return "tf32" if self.rounded else self.load.dtype

    @property
    def axes(self) -> frozenset[Axis]:
        """The axes that it depends on."""
        return frozenset(axis for terms, _ in self.forms for axis in terms)

    def plain_dim(self, axis: Axis) -> int | None:
        """The one index that depends on an axis, where it is that axis plus nothing."""
        moving = [d for d, (terms, _) in enumerate(self.forms) if axis in terms]
        return moving[0] if len(moving) == 1 and self.load.indices[moving[0]] is axis else None

    def is_contiguous(self, axis: Axis) -> bool:
        """Whether neighbours along an axis are neighbours in a row-major tensor."""
        distance, stride = 0, 1
        for (terms, _), extent in zip(self.forms[::-1], self.load.tensor.shape[::-1], strict=True):
            distance += terms.get(axis, 0) * stride
            stride *= extent
        return distance == 1


@dataclass(frozen=True, slots=True)
class Contraction:
    """``out[batch, rows, columns] += acc(lhs) * acc(rhs)`` over ``terms``; axes by who uses them.

    Attributes:
        lhs, rhs: the operands; the last axis of the result belongs to ``rhs``.
        rows, columns: spatial axes of ``lhs`` alone, and of ``rhs`` alone.
        batch: spatial axes of both.
        terms: reduce axes of both.
        dtype: of products and sums.
    """

    lhs: Multiplicand
    rhs: Multiplicand
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    batch: tuple[Axis, ...]
    terms: tuple[Axis, ...]
    dtype: str


def contraction_of(op: Compute) -> Contraction | None:
    """The contraction that a stage computes: a sum of products of two tensor elements, widened or
    rounded, some of them left out by a condition; None where it is something else.
    """
    reduce = op.reduce
    if reduce is None or not is_sum(reduce.reducer):
        return None
    term = _without_conditions(reduce.sources[0])
    wide = [axis for axis in op.axes if axis.extent > 1]
    if not isinstance(term, Binary) or term.op != "mul" or not wide:
        return None
    lhs, rhs = _operand(term.lhs, op), _operand(term.rhs, op)
    if lhs is None or rhs is None or lhs.load.tensor.op is rhs.load.tensor.op:
        return None
    if wide[-1] in lhs.axes:
        lhs, rhs = rhs, lhs
    if wide[-1] not in rhs.axes - lhs.axes:
        return None
    both = lhs.axes & rhs.axes
    return Contraction(
        lhs,
        rhs,
        rows=tuple(axis for axis in op.axes if axis in lhs.axes - both),
        columns=tuple(axis for axis in op.axes if axis in rhs.axes - both),
        batch=tuple(axis for axis in op.axes if axis in both),
        terms=tuple(axis for axis in op.reduce_axes if axis in both),
        dtype=term.dtype,
    )


def _without_conditions(term: Expr) -> Expr:
    while isinstance(term, Select):
        zero = term.otherwise
        if not isinstance(zero, Const) or zero.value != 0:
            break
        term = term.then
    return term


def _operand(factor: Expr, op: Compute) -> Multiplicand | None:
    rounded = isinstance(factor, Unary) and factor.op == ROUND_TF32
    load = factor.operand if isinstance(factor, Cast | Unary) else factor
    if isinstance(factor, Unary) and not rounded:
        return None
    if not isinstance(load, Load):
        return None
    forms = [affine_index(index, op.all_axes) for index in load.indices]
    known = tuple(form for form in forms if form is not None)
    return Multiplicand(load, known, rounded) if forms and len(known) == len(forms) else None
