"""Guards of a store: predicates, affine conditions in values, and masks, merged by their form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sketch.lang.affine import UNBOUNDED
from sketch.lang.conditions import conjuncts
from sketch.lang.expr import Binary, Expr, Select
from sketch.nest.intervals import predicates_of
from sketch.nest.loopnest import Affine, LoopVar, Need
from sketch.nest.walk import walk_value

# They cut a range; an equality picks points, to which no loop is clipped.
_SIDES: Final = ("lt", "le", "gt", "ge")

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
    return [
        _positive(test.index, test.low, test.high)
        for node in walk_value(value)
        if isinstance(node, Select)
        for part in conjuncts(node.condition)
        if isinstance(part, Binary) and part.op in _SIDES
        for test in predicates_of(part) or ()
    ]


def _positive(index: Affine, low: int, high: int) -> Bound:
    """Written with a positive leading coefficient so that both sides merge."""
    if index.terms and index.terms[0][1] < 0:
        return index.scale(-1), 1 - high, 1 - low
    return index, low, high


def masks_of(needs: Sequence[Need], known: Sequence[MergedGuard]) -> list[MergedGuard]:
    """Where masks need a store, without what known guards tell already."""
    told = [guard.coefficients for guard in known]
    bounds = [_positive(need.index, -UNBOUNDED, need.mask.high) for need in needs]
    return [guard for guard in merged_guards(bounds) if guard.coefficients not in told]
