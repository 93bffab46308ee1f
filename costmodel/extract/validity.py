"""Predicates: the share of trips that do work, and what guards cost in code.

The share of ``low <= X < high`` uses that X is a sum of loop variables: those of spatial loops fill
an interval evenly, and so do those of reduce loops, so X is distributed like the sum of two uniform
variables.  Exact for tails of tiles; a continuity approximation for padding.
"""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.extract.operations import as_affine, walk_value
from costmodel.extract.quantity import Quantity, ceil, larger, smaller, where
from costmodel.extract.statement import UNROLLED_KINDS, VECTOR_KINDS, LoopInfo, Site
from sketch.expr import Binary, Expr, Select
from sketch.loopnest import UNBOUNDED, Affine, LoopVar, Predicate


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """``low <= index < high`` with both sides merged over all guards of the same form."""

    terms: tuple[tuple[LoopVar, int], ...]
    low: int
    high: int


@dataclass(frozen=True, slots=True, eq=False)
class Validity:
    """Shares in [0, 1] and counts; [P] or fixed.

    Attributes:
        tail_valid: trips inside the extents, of all trips.
        tail_executed: trips in register tiles that have a trip inside the extents, of all trips.
        padding_valid: trips that no padding guard excludes, of those inside the extents.
        guards: distinct guards.
        copies: estimated specialised copies of the straight-line code.
    """

    tail_valid: Quantity
    tail_executed: Quantity
    padding_valid: Quantity
    guards: float
    copies: Quantity


def validity(site: Site) -> Validity:
    """The predicates of a store and the affine guards in its values.

    A predicate over spatial and reduce loops together is padding, like a guard in a value.
    """
    tails = _merge([_bound(p) for p in site.store.predicates if not _is_padding(p, site)])
    paddings = _merge([
        *(_bound(p) for p in site.store.predicates if _is_padding(p, site)),
        *(bound for value in site.store.values for bound in _guards_of(value)),
    ])
    copies: Quantity = 1.0
    tail_valid: Quantity = 1.0
    tail_executed: Quantity = 1.0
    padding_valid: Quantity = 1.0
    for guard in tails:
        tail_valid = tail_valid * share(guard, site.loops)
        tail_executed = tail_executed * _executed(guard, site.loops)
    for guard in paddings:
        padding_valid = padding_valid * _inside(guard, tails, site.loops)
        copies = copies * _copies(guard, site.loops)
    guards = float(len(tails) + len(paddings))
    return Validity(tail_valid, tail_executed, padding_valid, guards, copies)


def _inside(guard: Guard, tails: list[Guard], loops: tuple[LoopInfo, ...]) -> Quantity:
    """Share of a padding guard among the trips inside the extents of its own axes.

    What lies beyond an extent also fails the guard, so the shares divide.
    """
    total = share(guard, loops)
    variables = {var for var, _ in guard.terms}
    for tail in tails:
        if {var for var, _ in tail.terms} <= variables:
            total = total / larger(share(tail, loops), 1e-9)
    return smaller(total, 1.0)


def _executed(guard: Guard, loops: tuple[LoopInfo, ...]) -> Quantity:
    """Tiles of straight-line code are executed whole or not at all."""
    walked: Quantity = 1.0
    tile: Quantity = 1.0
    for loop in loops:
        coefficient = abs(dict(guard.terms).get(loop.var, 0))
        if coefficient:
            walked = walked + coefficient * loop.reach
            if loop.kind in (*UNROLLED_KINDS, *VECTOR_KINDS):
                tile = tile + coefficient * loop.reach
    return smaller(ceil(smaller(float(guard.high), walked) / tile) * tile / walked, 1.0)


def _bound(predicate: Predicate) -> tuple[Affine, int, int]:
    return predicate.index, predicate.low, predicate.high


def _is_padding(predicate: Predicate, site: Site) -> bool:
    return len({var in site.reduces for var, _ in predicate.index.terms}) > 1


def share(guard: Guard, loops: tuple[LoopInfo, ...]) -> Quantity:
    """Share of all trips of ``loops`` for which the guard holds."""
    minimum: Quantity = 0.0
    widths: list[Quantity] = [0.0, 0.0]
    steps = [0.0, 0.0]
    for loop in loops:
        coefficient = dict(guard.terms).get(loop.var, 0)
        if coefficient:
            minimum = minimum + smaller(coefficient * loop.reach, 0.0)
            widths[loop.reduce] = widths[loop.reduce] + abs(coefficient) * loop.reach
            steps[loop.reduce] = max(steps[loop.reduce], float(abs(coefficient)))
    # A variable of step g that takes N values is spread over an interval of N * g.
    spatial, reduce = (width + step for width, step in zip(widths, steps, strict=True))
    if isinstance(spatial, float) and isinstance(reduce, float) and spatial == reduce == 0.0:
        return 1.0 if guard.low <= 0 < guard.high else 0.0
    # Integers x < bound end at bound - 1/2; the intervals start half a step below the minimum.
    start = minimum - (steps[0] + steps[1]) / 2
    above = _distribution(guard.high - 0.5 - start, spatial, reduce)
    below = _distribution(guard.low - 0.5 - start, spatial, reduce)
    return larger(above - below, 0.0)


def _distribution(at: Quantity, a: Quantity, b: Quantity) -> Quantity:
    """P(U + V <= at) for U uniform on [0, a], V uniform on [0, b]; one of them may be 0."""
    if isinstance(b, float) and b == 0.0:
        return smaller(larger(at / a, 0.0), 1.0)
    if isinstance(a, float) and a == 0.0:
        return smaller(larger(at / b, 0.0), 1.0)
    at = smaller(larger(at, 0.0), a + b)
    area = (
        at**2 - larger(at - a, 0.0) ** 2 - larger(at - b, 0.0) ** 2 + larger(at - a - b, 0.0) ** 2
    )
    return area / (2.0 * a * b)


def _copies(guard: Guard, loops: tuple[LoopInfo, ...]) -> Quantity:
    """Edges that need code of their own.

    Guards that straight-line code depends on are specialised, one copy a violated side; others
    become bounds of a loop.
    """
    low: Quantity = 0.0
    high: Quantity = 0.0
    unrolled: Quantity = 0.0
    for loop in loops:
        coefficient = dict(guard.terms).get(loop.var, 0)
        if coefficient:
            low = low + smaller(coefficient * loop.reach, 0.0)
            high = high + larger(coefficient * loop.reach, 0.0)
            if not loop.reduce and loop.kind in (*UNROLLED_KINDS, *VECTOR_KINDS):
                unrolled = unrolled + loop.reach
    edges = where(low < guard.low, 1.0, 0.0) + where(high >= guard.high, 1.0, 0.0)
    return 1.0 + where(unrolled > 0.0, edges, 0.0)


def _merge(bounds: list[tuple[Affine, int, int]]) -> list[Guard]:
    merged: dict[tuple[tuple[int, int], ...], Guard] = {}
    for index, low, high in bounds:
        key = tuple(sorted((id(var), c) for var, c in index.terms))
        low, high = low - index.const, high - index.const
        if key in merged:
            low, high = max(low, merged[key].low), min(high, merged[key].high)
        merged[key] = Guard(index.terms, low, high)
    return list(merged.values())


def _guards_of(value: Expr) -> list[tuple[Affine, int, int]]:
    found: list[tuple[Affine, int, int]] = []
    for node in walk_value(value):
        if isinstance(node, Select):
            found.extend(_conjuncts(node.condition))
    return found


def _conjuncts(condition: Expr) -> list[tuple[Affine, int, int]]:
    if not isinstance(condition, Binary):
        return []
    if condition.op == "and":
        return _conjuncts(condition.lhs) + _conjuncts(condition.rhs)
    lhs, rhs = as_affine(condition.lhs), as_affine(condition.rhs)
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


def _at_least(index: Affine, low: int) -> tuple[Affine, int, int]:
    """``index >= low``, written with a positive leading coefficient so that sides merge."""
    if index.terms and index.terms[0][1] < 0:
        return index.scale(-1), -UNBOUNDED, 1 - low
    return index, low, UNBOUNDED
