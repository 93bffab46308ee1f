"""What a condition says about loop variables where it holds, and where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sketch.lang.affine import UNBOUNDED, Interval
from sketch.lang.dtypes import is_integer
from sketch.lang.expr import Binary, Expr, Unary
from sketch.lang.operator_names import COMPARISON
from sketch.nest.intervals import affine_of, comparison, value_interval
from sketch.nest.loopnest import Affine, Predicate

_NEGATED: Final = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


# No value of the form without variables is this large.
_NEVER: Final = Predicate(Affine(()), 1, UNBOUNDED)


def implied(
    condition: Expr, holds: bool, bounds: Callable[[Affine], Interval]
) -> tuple[Predicate, ...]:
    """Predicates that follow from ``condition`` being ``holds``; perhaps not all there are.

    ``bounds``: least and largest value of a form.
    """
    match condition:
        case Unary("not", operand, _):
            return implied(operand, not holds, bounds)
        case Binary("and" | "or" as op, lhs, rhs, _):
            both = (op == "and") == holds
            if not both:
                return ()
            return implied(lhs, holds, bounds) + implied(rhs, holds, bounds)
        case Binary(op, lhs, rhs, _) if op in COMPARISON:
            return _compared(op if holds else _NEGATED[op], lhs, rhs, bounds)
        case _:
            return ()


def _compared(
    op: str, lhs: Expr, rhs: Expr, bounds: Callable[[Affine], Interval]
) -> tuple[Predicate, ...]:
    left, right = affine_of(lhs), affine_of(rhs)
    if left is not None and right is not None:
        return tuple(comparison(op, left + right.scale(-1)) or ())
    if not is_integer(lhs.dtype):
        return ()
    first, second = value_interval(lhs, bounds), value_interval(rhs, bounds)
    if first is None or second is None:
        return ()
    low, high = first[0] - second[1], first[1] - second[0]
    wanted = comparison(op, Affine(())) or ()
    return (_NEVER,) if any(high < w.low or low >= w.high for w in wanted) else ()
