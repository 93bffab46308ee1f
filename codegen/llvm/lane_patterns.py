"""Index arithmetic lane by lane, where lanes differ by known numbers that are no multiples.

With groups of four channels, lane l reads channel ``l // 4 * 4 + c``: a vector that begins at a
multiple of four has this pattern wherever it lies.
"""

from __future__ import annotations

from functools import partial

from codegen.llvm.scope import LoopScope
from codegen.llvm.values import Form, Terms
from sketch.lang.affine import Interval, add_terms, bounds, fits, scale_terms
from sketch.lang.expr import Binary, Const, Expr
from sketch.nest.loopnest import Affine, AffineValue, LoopVar

# Terms count trips of their loops, so that quotients of a loop's steps stay integers.
_Sum = tuple[Terms, int]


def lane_pattern(scope: LoopScope, form: Form, parts: list[tuple[Expr, int]]) -> Form | None:
    """``form + sum(expression * factor)`` with the numbers by which lanes differ as its pattern.

    Args:
        scope: variables of the loops around, one of them the lane.
        form: the affine part of the sum.
        parts: integer expressions and their factors.

    Returns:
        None where lanes differ by what only the run knows, or where an expression has more than
        sums, quotients and remainders of loop variables.
    """
    lanes: list[_Sum] = []
    for lane in range(scope.width):
        total = _in_steps(scope, form, lane)
        for expr, factor in parts:
            found = _in_lane(scope, expr, lane)
            if found is None:
                return None
            total = _sum(total, (scale_terms(found[0], factor), found[1] * factor))
        lanes.append(total)
    terms, const = lanes[0]
    if any(dict(other) != dict(terms) for other, _ in lanes):
        return None
    if any(count % scope.dynamic[var].step for var, count in terms):
        return None
    dynamic = tuple((var, count // scope.dynamic[var].step) for var, count in terms)
    steps = tuple(other - const for _, other in lanes)
    if steps == tuple(steps[-1] // max(1, len(steps) - 1) * n for n in range(len(steps))):
        return Form(dynamic, steps[-1] // max(1, len(steps) - 1), const)
    return Form(dynamic, 0, const, steps)


def _in_steps(scope: LoopScope, form: Form, lane: int) -> _Sum:
    terms = tuple((var, c * scope.dynamic[var].step) for var, c in form.dynamic)
    return terms, form.const + lane * form.lane


def _sum(lhs: _Sum, rhs: _Sum, sign: int = 1) -> _Sum:
    return add_terms(lhs[0], rhs[0], sign), lhs[1] + sign * rhs[1]


def _in_lane(scope: LoopScope, expr: Expr, lane: int) -> _Sum | None:
    """The value in one lane."""
    match expr:
        case Const(value):
            return (), int(value)
        case LoopVar():
            return _in_steps(scope, scope.resolve(Affine(((expr, 1),))), lane)
        case AffineValue(index):
            return _in_steps(scope, scope.resolve(index), lane)
        case Binary(op, lhs, rhs):
            left, right = _in_lane(scope, lhs, lane), _in_lane(scope, rhs, lane)
            found = None if left is None or right is None else _combined(scope, op, left, right)
            return found if found is not None and _fits(scope, found, expr.dtype) else None
    return None


def _fits(scope: LoopScope, value: _Sum, dtype: str) -> bool:
    """Whether it does not wrap around."""
    return fits(bounds(value[1], value[0], partial(_trips, scope)), dtype)


def _trips(scope: LoopScope, var: LoopVar) -> Interval:
    known = scope.dynamic[var]
    return known.low // known.step, known.high // known.step


def _combined(scope: LoopScope, op: str, lhs: _Sum, rhs: _Sum) -> _Sum | None:
    if op in ("add", "sub"):
        return _sum(lhs, rhs, 1 if op == "add" else -1)
    if op == "mul" and not (lhs[0] and rhs[0]):
        (terms, const), factor = (lhs, rhs[1]) if not rhs[0] else (rhs, lhs[1])
        return scale_terms(terms, factor), const * factor
    if op in ("floordiv", "mod") and not rhs[0] and rhs[1] > 0:
        return _divided(scope, op, lhs, rhs[1])
    return None


def _divided(scope: LoopScope, op: str, value: _Sum, divisor: int) -> _Sum | None:
    """The terms that the divisor divides are whole; the others must stay within one multiple."""
    whole = tuple((var, c // divisor) for var, c in value[0] if c % divisor == 0)
    rest = tuple((var, c) for var, c in value[0] if c % divisor)
    low, high = bounds(value[1], rest, partial(_trips, scope))
    base = low // divisor
    if base != high // divisor:
        return None
    return (whole, base) if op == "floordiv" else (rest, value[1] - base * divisor)
