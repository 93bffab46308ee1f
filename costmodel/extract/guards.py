"""Guards of a store: predicates, affine conditions in values, and masks, merged by their form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sketch.lang.affine import UNBOUNDED
from sketch.lang.expr import Binary, Expr, Select
from sketch.nest.intervals import affine_of
from sketch.nest.loopnest import Affine, LoopVar, Need
from sketch.nest.walk import walk_value

Bound = tuple[Affine, int, int]
"""``low <= index < high``."""


@dataclass(frozen=True, slots=True, eq=False)
class MergedGuard:
    """``low <= index < high`` with both sides merged over all guards of the same form."""

    terms: tuple[tuple[LoopVar, int], ...]
    low: int
    high: int
    coefficients: Mapping[LoopVar, int] = field(init=False)
    variables: frozenset[LoopVar] = field(init=False)

    def __post_init__(self) -> None:
        coefficients = dict(self.terms)
        object.__setattr__(self, "coefficients", coefficients)
        object.__setattr__(self, "variables", frozenset(coefficients))


def merged_guards(bounds: Sequence[Bound]) -> list[MergedGuard]:
    """Both sides of all bounds of a form in one."""
    merged: dict[tuple[tuple[int, int], ...], MergedGuard] = {}
    for index, low, high in bounds:
        key = tuple(sorted((id(var), c) for var, c in index.terms))
        low, high = low - index.const, high - index.const
        if key in merged:
            low, high = max(low, merged[key].low), min(high, merged[key].high)
        merged[key] = MergedGuard(index.terms, low, high)
    return list(merged.values())


def guards_of(value: Expr) -> list[Bound]:
    """The affine conditions by which a value selects."""
    found: list[Bound] = []
    for node in walk_value(value):
        if isinstance(node, Select):
            found.extend(_conjuncts(node.condition))
    return found


def _conjuncts(condition: Expr) -> list[Bound]:
    if not isinstance(condition, Binary):
        return []
    if condition.op == "and":
        return _conjuncts(condition.lhs) + _conjuncts(condition.rhs)
    lhs, rhs = affine_of(condition.lhs), affine_of(condition.rhs)
    if lhs is None or rhs is None:
        return []
    match condition.op:
        case "lt":
            return [_at_least(rhs + lhs.scale(-1), 1)]
        case "le":
            return [_at_least(rhs + lhs.scale(-1), 0)]
        case "gt":
            return [_at_least(lhs + rhs.scale(-1), 1)]
        case "ge":
            return [_at_least(lhs + rhs.scale(-1), 0)]
        case _:
            return []


def _at_least(index: Affine, low: int) -> Bound:
    """``index >= low``, written with a positive leading coefficient so that sides merge."""
    if index.terms and index.terms[0][1] < 0:
        return index.scale(-1), -UNBOUNDED, 1 - low
    return index, low, UNBOUNDED


def masks_of(needs: Sequence[Need], known: Sequence[MergedGuard]) -> list[MergedGuard]:
    """Where masks need a store, without what known guards tell already."""
    told = [guard.coefficients for guard in known]
    bounds = [_at_least(need.index.scale(-1), 1 - need.mask.high) for need in needs]
    return [guard for guard in merged_guards(bounds) if guard.coefficients not in told]
