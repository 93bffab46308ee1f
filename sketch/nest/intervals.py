"""What the indices of a nest can be: affine forms of expressions, and intervals over the values
that the loops really take.

``Quasi.low`` and ``Quasi.high`` hold for the points of a stage's domain.  Vector lanes, unrolled
copies and attached regions also run beyond it; there only these intervals hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sketch.lang.affine import UNBOUNDED, Interval, combine_intervals, hull, limits_of, wrapped
from sketch.lang.dtypes import is_float, is_integer
from sketch.lang.expr import Binary, Cast, Const, Expr, Select, Unary
from sketch.lang.operator_names import COMPARISON
from sketch.nest.loopnest import Affine, AffineValue, LoopVar, Predicate

# Coefficients: sums of such terms stay below 2^60.
_LARGEST: Final = 2**28


def affine_of(expr: Expr) -> Affine | None:
    """The affine form of an integer expression, None where it has none."""
    return _form_of(expr, affine_of)


def _form_of(expr: Expr, form_of: Callable[[Expr], Affine | None]) -> Affine | None:
    """The affine form of an expression, from those of its operands."""
    match expr:
        case AffineValue(index):
            return index
        case LoopVar():
            return Affine(((expr, 1),))
        case Const(value, dtype) if not is_float(dtype):
            return _small(Affine((), int(value)))
        case Binary("add" | "sub" as op, lhs, rhs, _):
            left, right = form_of(lhs), form_of(rhs)
            if left is None or right is None:
                return None
            return left + (right if op == "add" else right.scale(-1))
        case Binary("mul", lhs, rhs, _):
            left, right = form_of(lhs), form_of(rhs)
            if left is None or right is None:
                return None
            if not right.terms:
                return _small(left.scale(right.const))
            return _small(right.scale(left.const)) if not left.terms else None
        case _:
            return None


def _small(form: Affine) -> Affine | None:
    """A form that is told from ``UNBOUNDED``, as loops have less than 2^31 turns; else None."""
    numbers = (form.const, *(coefficient for _, coefficient in form.terms))
    return form if max(map(abs, numbers)) <= _LARGEST else None


def predicates_of(condition: Expr) -> list[Predicate] | None:
    """A conjunction of affine comparisons as predicates, None where it is something else."""
    if not isinstance(condition, Binary):
        return None
    if condition.op == "and":
        lhs, rhs = predicates_of(condition.lhs), predicates_of(condition.rhs)
        return None if lhs is None or rhs is None else [*lhs, *rhs]
    lhs_form, rhs_form = affine_of(condition.lhs), affine_of(condition.rhs)
    if condition.op not in COMPARISON or lhs_form is None or rhs_form is None:
        return None
    return comparison(condition.op, lhs_form + rhs_form.scale(-1))


def comparison(op: str, difference: Affine) -> list[Predicate] | None:
    """``difference op 0`` as predicates; None for ``ne``."""
    if op == "ne":
        return None
    low = {"ge": 0, "gt": 1, "eq": 0}.get(op, -UNBOUNDED)
    high = {"lt": 0, "le": 1, "eq": 1}.get(op, UNBOUNDED)
    return [Predicate(difference, low, high)]


def value_interval(expr: Expr, of_form: Callable[[Affine], Interval]) -> Interval | None:
    """Inclusive bounds of an integer expression of a nest; None if unknown.

    ``of_form``: bounds of an affine form.  Data may be any number, so an index made of them is
    bounded by what clamps it.
    """
    return interval_visitor(of_form)(expr)


def interval_visitor(
    of_form: Callable[[Affine], Interval],
) -> Callable[[Expr], Interval | None]:
    """``value_interval`` for expressions that share parts; they must outlive the function."""
    memo: dict[int, Interval | None] = {}
    forms: dict[int, Affine | None] = {}

    def form_of(node: Expr) -> Affine | None:
        if id(node) not in forms:
            forms[id(node)] = _form_of(node, form_of)
        return forms[id(node)]

    def visit(node: Expr) -> Interval | None:
        if id(node) not in memo:
            form = form_of(node)
            memo[id(node)] = _bounds_of(node, visit) if form is None else of_form(form)
        return memo[id(node)]

    return visit


def _bounds_of(expr: Expr, visit: Callable[[Expr], Interval | None]) -> Interval | None:
    match expr:
        case Const(value, dtype) if is_integer(dtype):
            return int(value), int(value)
        case Cast(operand, dtype) if is_integer(dtype):
            return wrapped(visit(operand), dtype)
        case Unary("neg", operand, dtype) if is_integer(dtype):
            inner = visit(operand)
            return wrapped(None if inner is None else (-inner[1], -inner[0]), dtype)
        case Select(_, then, otherwise):
            return hull(visit(then), visit(otherwise))
        case Binary(op, lhs, rhs, dtype) if is_integer(dtype):
            return wrapped(combine_intervals(op, visit(lhs), visit(rhs)), dtype)
        case _:
            return limits_of(expr.dtype)
