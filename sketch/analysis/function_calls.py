"""How often stages evaluate functions that are many instructions: exponentials, divisions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final

from sketch.lang.dtypes import FLOATS
from sketch.lang.expr import Axis, Binary, Const, Expr, Unary
from sketch.lang.operator_names import FLOAT_CALLS
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute

TWO_OPERANDS: Final = ("div", "pow")
"""Functions of two operands among them."""
# 16-bit floats are computed in float32; others have functions of their own.
_COMPUTED: Final = frozenset(FLOATS) - {"float64"}


def function_calls(stages: Iterable[Compute]) -> dict[str, float]:
    """Evaluations by the name of the function, in one execution of all stages.

    Those of float32 and shorter floats.  What a body has in several places is evaluated once, and
    what some of its axes leave as it is once for all of them.  Quotients count where the divisor is
    no literal.
    """
    found: Counter[str] = Counter()
    for op in stages:
        bodies = op.bodies if op.reduce is None else op.reduce.sources
        for node in _distinct(bodies):
            if (name := _function(node)) is not None:
                moving = {inner for inner in walk(node) if isinstance(inner, Axis)}
                found[name] += math.prod(axis.extent for axis in moving)
    return {name: float(found[name]) for name in sorted(found)}


def _function(node: Expr) -> str | None:
    match node:
        case Unary(op, _, dtype) if op in FLOAT_CALLS and dtype in _COMPUTED:
            return op
        case Binary(op, _, rhs, dtype) if op in TWO_OPERANDS and dtype in _COMPUTED:
            return None if op == "div" and isinstance(rhs, Const) else op
    return None


def _distinct(bodies: Iterable[Expr]) -> Iterable[Expr]:
    return {id(node): node for body in bodies for node in walk(body)}.values()
