"""Parts of conditions."""

from __future__ import annotations

from sketch.lang.expr import Binary, Expr


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """What has to hold together: ``a and (b and c)`` is (a, b, c)."""
    if isinstance(condition, Binary) and condition.op == "and":
        return (*conjuncts(condition.lhs), *conjuncts(condition.rhs))
    return (condition,)
