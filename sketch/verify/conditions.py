"""What a condition says about loop variables where it holds, and where it does not."""

from __future__ import annotations

from typing import Final

from sketch.lang.expr import Binary, Expr, Unary
from sketch.lang.operator_names import COMPARISON
from sketch.nest.intervals import affine_of, comparison
from sketch.nest.loopnest import Predicate

_NEGATED: Final = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def implied(condition: Expr, holds: bool) -> tuple[Predicate, ...]:
    """Predicates that follow from ``condition`` being ``holds``; perhaps not all there are."""
    match condition:
        case Unary("not", operand, _):
            return implied(operand, not holds)
        case Binary("and" | "or" as op, lhs, rhs, _):
            both = (op == "and") == holds
            return implied(lhs, holds) + implied(rhs, holds) if both else ()
        case Binary(op, lhs, rhs, _) if op in COMPARISON:
            left, right = affine_of(lhs), affine_of(rhs)
            if left is None or right is None:
                return ()
            difference = left + right.scale(-1)
            return tuple(comparison(op if holds else _NEGATED[op], difference) or ())
        case _:
            return ()
