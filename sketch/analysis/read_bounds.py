"""Proof that every read of a stage at an affine index, or at one made of data, stays inside its
tensor.

Data must be clamped: ``table[maximum(minimum(index[i], n - 1), 0)]``.  A read at an affine index
may leave the tensor only under a select whose condition excludes exactly those points:
``select(all_of(h - 1 >= 0, h - 1 < H), data[h - 1], 0)``.
"""

from __future__ import annotations

from typing import Final

from sketch.analysis.access import (
    AffineForm,
    add_forms,
    affine_index,
    axis_bounds,
    index_interval,
    interval_of,
)
from sketch.errors import ExpressionError
from sketch.lang.affine import Interval
from sketch.lang.expr import Binary, Expr, Load, Select, Unary
from sketch.lang.rewrite import children, walk
from sketch.lang.tensor import Compute

_NEGATED: Final = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}

# Known facts, each "form >= 0".
Facts = tuple[AffineForm, ...]


def check_reads(op: Compute) -> None:
    """Raise ExpressionError if a read of ``op`` can leave its tensor."""
    for body in op.bodies:
        _Checker(op).visit(body, ())


def facts_of(condition: Expr) -> Facts | None:
    """A condition as a conjunction of affine facts ``form >= 0``, or None where it is not one."""
    facts, exact = _facts(condition, holds=True)
    return facts if exact else None


def _facts(condition: Expr, holds: bool) -> tuple[Facts, bool]:
    """(facts implied by ``condition`` being ``holds``, whether they are equivalent to it)."""
    match condition:
        case Unary("not", operand, _):
            return _facts(operand, not holds)
        case Binary("and" | "or" as op, lhs, rhs, _):
            if (op == "and") != holds:
                return (), False
            left, right = _facts(lhs, holds), _facts(rhs, holds)
            return left[0] + right[0], left[1] and right[1]
        case Binary(op, lhs, rhs, _) if op in _NEGATED:
            a, b = affine_index(lhs), affine_index(rhs)
            if a is None or b is None:
                return (), False
            return _comparison(op if holds else _NEGATED[op], a, b)
        case _:
            return (), False


def _comparison(op: str, a: AffineForm, b: AffineForm) -> tuple[Facts, bool]:
    one: AffineForm = ({}, 1)
    match op:
        case "lt":
            return (add_forms(add_forms(b, a, -1), one, -1),), True
        case "le":
            return (add_forms(b, a, -1),), True
        case "gt":
            return (add_forms(add_forms(a, b, -1), one, -1),), True
        case "ge":
            return (add_forms(a, b, -1),), True
        case "eq":
            return (add_forms(a, b, -1), add_forms(b, a, -1)), True
        case _:
            return (), False


def bound_by_fact(form: AffineForm, fact: AffineForm) -> tuple[int | None, int | None]:
    """(lower, upper) bound that ``fact >= 0`` puts on ``form``; None where it says nothing."""
    if form[0] == fact[0]:
        return form[1] - fact[1], None
    if {axis: -c for axis, c in form[0].items()} == fact[0]:
        return None, form[1] + fact[1]
    return None, None


def _narrow(form: AffineForm, facts: Facts, bounds: Interval) -> Interval:
    low, high = bounds
    for fact in facts:
        lower, upper = bound_by_fact(form, fact)
        low = low if lower is None else max(low, lower)
        high = high if upper is None else min(high, upper)
    return low, high


class _Checker:
    """Walks one stage, carrying the facts that hold at each point."""

    def __init__(self, op: Compute) -> None:
        self._op = op
        self._seen: set[tuple[int, int]] = set()

    def visit(self, node: Expr, facts: Facts) -> None:
        if (id(node), len(facts)) in self._seen and not facts:
            return
        self._seen.add((id(node), len(facts)))
        if isinstance(node, Select):
            self.visit(node.condition, facts)
            self.visit(node.then, facts + _facts(node.condition, holds=True)[0])
            self.visit(node.otherwise, facts + _facts(node.condition, holds=False)[0])
            return
        if isinstance(node, Load):
            self._check(node, facts)
        for child in children(node):
            self.visit(child, facts)

    def _check(self, load: Load, facts: Facts) -> None:
        box = {
            axis: _narrow(({axis: 1}, 0), facts, axis_bounds(axis, None))
            for axis in self._op.all_axes
        }
        if any(low > high for low, high in box.values()):
            return  # the branch is never taken
        for dimension, (index, extent) in enumerate(
            zip(load.indices, load.tensor.shape, strict=True)
        ):
            form = affine_index(index)
            if form is None:
                self._check_data(index, dimension, load)
                continue
            low, high = _narrow(form, facts, interval_of(form, box))
            if low <= high and (low < 0 or high >= extent):
                raise ExpressionError(
                    f"index {dimension} of {load.tensor.name} runs from {low} to {high}, "
                    f"the extent is {extent}",
                    f"stage {self._op.name}",
                    "guard the read: select(condition on the index, read, 0)",
                )

    def _check_data(self, index: Expr, dimension: int, load: Load) -> None:
        """An index that is made of data must be clamped; what else is not affine is left alone."""
        bounds = index_interval(index)
        last = load.tensor.shape[dimension] - 1
        clamped = bounds is not None and bounds[0] >= 0 and bounds[1] <= last
        if not clamped and any(isinstance(node, Load) for node in walk(index)):
            raise ExpressionError(
                f"index {dimension} of {load.tensor.name} is data and may be any number",
                f"stage {self._op.name}",
                f"clamp it: maximum(minimum(index, {last}), 0)",
            )
