"""Predicates: the share of trips that do work, and what guards cost in code.

The share of ``low <= X < high`` uses that X is a sum of loop variables: those of spatial loops fill
an interval evenly, and so do those of reduce loops, so X is distributed like the sum of two uniform
variables.  Exact for tails of tiles; a continuity approximation for padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.guards import Bound, MergedGuard, guards_of, masks_of, merged_guards
from costmodel.extract.quantity import Quantity, ceil, larger, smaller, where
from costmodel.extract.statement import STRAIGHT_KINDS, UNROLLED_KINDS, LoopInfo, StoreSite
from sketch.nest.loopnest import Predicate


@dataclass(frozen=True, slots=True, eq=False)
class Validity:
    """Shares in [0, 1] and counts; [P] or fixed.

    Attributes:
        tail_valid: trips inside the extents, of all trips.
        tail_executed: trips that loops clipped to the extents do execute, of all trips: register
            tiles run whole or not at all.
        padding_valid: trips that no padding guard or mask excludes, of those inside the extents.
        guards: distinct guards; ``paddings``: those that padding makes.
        copies: estimated specialised copies of the straight-line code.
        growth: how much those copies enlarge it: at an edge that padding makes, the short reduce
            loops of the guard are unrolled, so that every tap is decided.
        reduce_growth: how much copies for the ends of unrolled reductions enlarge it.
        bounded_trips: trips inside the innermost reduce loop whose bounds a padding guard makes
            known at run time only; infinite without one.
        tile_valid: trips inside the extents, of those of the tiles that are executed.
        edge_inside: share of the smallest tile at an edge that is inside; 1 where tiles fit.
        looped_ends: 1 where an unrolled reduction ends within its copies and a loop is left around
            them, else 0.
    """

    tail_valid: Quantity
    tail_executed: Quantity
    padding_valid: Quantity
    guards: float
    copies: Quantity
    growth: Quantity
    reduce_growth: Quantity
    bounded_trips: Quantity
    looped_ends: Quantity
    tile_valid: Quantity
    edge_inside: Quantity
    paddings: tuple[MergedGuard, ...]


def validity(site: StoreSite) -> Validity:
    """The predicates of a store and the affine guards in its values.

    A predicate over spatial and reduce loops together is padding, like a guard in a value.
    """
    tails = merged_guards([_bound(p) for p in site.store.predicates if not _is_padding(p, site)])
    paddings = merged_guards(
        [
            *(_bound(p) for p in site.store.predicates if _is_padding(p, site)),
            *(bound for value in site.store.values for bound in guards_of(value)),
        ]
    )
    clips = innermost_clips([merged_guards([_bound(p)])[0] for p in site.clips])
    copies: Quantity = 1.0
    tail_valid: Quantity = 1.0
    tail_executed: Quantity = 1.0
    padding_valid: Quantity = 1.0
    growth: Quantity = 1.0
    for guard in clips:
        tail_executed = tail_executed * share(guard, site.loops)
    inside = [(guard, share(guard, site.loops)) for guard in tails]
    for _, valid in inside:
        tail_valid = tail_valid * valid
    for guard in _uncovered(tails, clips):
        tail_executed = tail_executed * _executed(guard, site.loops)
    tail_valid = smaller(tail_valid, tail_executed)
    for guard in (*paddings, *masks_of(site.store.needs, paddings)):
        padding_valid = padding_valid * _inside(guard, inside, site.loops)
    for guard in (*paddings, *_uncovered(tails, paddings)):
        edges = _edges(guard, tails, site.loops)
        copies = copies * (1.0 + edges)
        growth = growth * (1.0 + edges * _taps(guard, site.loops))
    bounds = [(guard, _bounded_trips(guard, site.loops)) for guard in paddings]
    bounded: Quantity = math.inf
    for _, trips in bounds:
        bounded = smaller(bounded, trips)
    reduce_growth: Quantity = 1.0
    looped: Quantity = 0.0
    tile_valid: Quantity = 1.0
    edge_inside: Quantity = 1.0
    for guard in tails:
        tiles = _tiles(guard, site.loops)
        whole = ceil(tiles)
        tile_valid = tile_valid * (tiles / larger(whole, 1.0))  # 0 where the guard never holds
        if not guard.variables & site.reduces:
            edge_inside = smaller(edge_inside, tiles - whole + 1.0)
            continue
        ends = _reduce_tail(guard, site.loops)
        reduce_growth = reduce_growth * (1.0 + ends)
        looped = larger(looped, where(ends > 0.0, _stays_loop(guard, bounds, site.loops), 0.0))
    guards = float(len(tails) + len(paddings))
    return Validity(
        tail_valid, tail_executed, padding_valid, guards, copies, growth, reduce_growth, bounded,
        looped, tile_valid, edge_inside, tuple(paddings),
    )  # fmt: skip


def innermost_clips(clips: list[MergedGuard]) -> list[MergedGuard]:
    """Clips that imply the others: those of inner loops of the same axis know more variables."""
    return [
        guard for guard in clips if not any(guard.variables < other.variables for other in clips)
    ]


def _uncovered(guards: list[MergedGuard], known: list[MergedGuard]) -> list[MergedGuard]:
    """Guards that have no variable in common with any of the known ones."""
    return [g for g in guards if not any(g.variables & k.variables for k in known)]


def _inside(
    guard: MergedGuard, tails: list[tuple[MergedGuard, Quantity]], loops: tuple[LoopInfo, ...]
) -> Quantity:
    """Share of a padding guard among the trips inside the extents of its own axes.

    What lies beyond an extent also fails the guard, so the shares divide.
    """
    total = share(guard, loops)
    for tail, valid in tails:
        if tail.variables <= guard.variables:
            total = total / larger(valid, 1e-9)
    return smaller(total, 1.0)


def _executed(guard: MergedGuard, loops: tuple[LoopInfo, ...]) -> Quantity:
    """Tiles of straight-line code are executed whole or not at all."""
    walked, tile = _walked(guard, loops)
    return smaller(ceil(_tiles(guard, loops)) * tile / walked, 1.0)


def _tiles(guard: MergedGuard, loops: tuple[LoopInfo, ...]) -> Quantity:
    """How many tiles of straight-line code are inside; the last one in part."""
    walked, tile = _walked(guard, loops)
    return smaller(float(guard.high), walked) / tile


def _walked(guard: MergedGuard, loops: tuple[LoopInfo, ...]) -> tuple[Quantity, Quantity]:
    """How many values the index takes, and how many of them in one tile."""
    walked: Quantity = 1.0
    tile: Quantity = 1.0
    for loop in loops:
        coefficient = abs(guard.coefficients.get(loop.var, 0))
        if coefficient:
            walked = walked + coefficient * loop.reach
            if loop.kind in STRAIGHT_KINDS:
                tile = tile + coefficient * loop.reach
    return walked, tile


def _bound(predicate: Predicate) -> Bound:
    return predicate.index, predicate.low, predicate.high


def _is_padding(predicate: Predicate, site: StoreSite) -> bool:
    return len({var in site.reduces for var, _ in predicate.index.terms}) > 1


def share(guard: MergedGuard, loops: tuple[LoopInfo, ...]) -> Quantity:
    """Share of all trips of ``loops`` for which the guard holds."""
    terms = guard.coefficients
    moving = [(loop, terms[loop.var]) for loop in loops if loop.var in terms]
    spatial = _Walk([(loop, c) for loop, c in moving if not loop.reduce])
    reduce = _Walk([(loop, c) for loop, c in moving if loop.reduce])
    if not reduce.moves:
        return spatial.share(guard)
    if not spatial.moves:
        return reduce.share(guard)
    # Integers x < bound end at bound - 1/2; the intervals start half a step below the minimum.
    start = spatial.minimum + reduce.minimum - (spatial.coefficient + reduce.coefficient) / 2
    widths = (spatial.reach + spatial.coefficient, reduce.reach + reduce.coefficient)
    above = _distribution(guard.high - 0.5 - start, *widths)
    below = _distribution(guard.low - 0.5 - start, *widths)
    return larger(above - below, 0.0)


class _Walk:
    """The values that a guard's index takes over some of the loops: evenly from a minimum on."""

    def __init__(self, moving: list[tuple[LoopInfo, int]]) -> None:
        self._moving = moving
        self.minimum: Quantity = 0.0
        self.reach: Quantity = 0.0
        self.coefficient = float(max((abs(c) for _, c in moving), default=0))
        for loop, coefficient in moving:
            if coefficient < 0:
                self.minimum = self.minimum + coefficient * loop.reach
            self.reach = self.reach + abs(coefficient) * loop.reach

    @property
    def moves(self) -> bool:
        """Whether the index depends on these loops."""
        return self.coefficient > 0.0

    def share(self, guard: MergedGuard) -> Quantity:
        """Share of the values within the guard; exact where tiles nest."""
        step = self._step()
        count = self.reach / step + 1.0
        inside = smaller(larger(ceil((guard.high - self.minimum) / step), 0.0), count)
        first = guard.low - self.minimum
        if isinstance(first, float) and first <= 0.0:  # no value is below the guard
            return inside / count
        below = ceil(first / step)
        return larger(inside - smaller(larger(below, 0.0), count), 0.0) / count

    def _step(self) -> Quantity:
        """Distance of neighbouring values: the smallest step of a loop of more than one trip."""
        step: Quantity = math.inf
        for loop, coefficient in self._moving:
            own = abs(coefficient) * loop.stride
            step = smaller(step, where(loop.extent > 1.0, own, math.inf))
        return where(step == math.inf, 1.0, step)


def _distribution(at: Quantity, a: Quantity, b: Quantity) -> Quantity:
    """P(U + V <= at) for U uniform on [0, a] and V uniform on [0, b]."""
    at = smaller(larger(at, 0.0), a + b)
    corners = [at, *(larger(beyond, 0.0) for beyond in (at - a, at - b, at - a - b))]
    whole, one, other, both = (corner * corner for corner in corners)
    return (whole - one - other + both) / (2.0 * a * b)


def _edges(guard: MergedGuard, tails: list[MergedGuard], loops: tuple[LoopInfo, ...]) -> Quantity:
    """Edges that need code of their own.

    Guards that straight-line code depends on are specialised, one copy a violated side; others
    become bounds of a loop.  A tail of the guard's own axes is at its high side.
    """
    below, above = _violated(guard, loops)
    for tail in tails:
        if tail.variables < guard.variables:
            above = larger(above, _violated(tail, loops)[1])
    return where(_is_in_tile(guard, loops), below + above, 0.0)


def _is_in_tile(guard: MergedGuard, loops: tuple[LoopInfo, ...]) -> bool | NDArray[np.bool_]:
    """Whether spatial loops of straight-line code move a guard."""
    reach: Quantity = 0.0
    for loop in loops:
        if guard.coefficients.get(loop.var) and not loop.reduce and loop.kind in STRAIGHT_KINDS:
            reach = reach + loop.reach
    return reach > 0.0


def _bounded_trips(guard: MergedGuard, loops: tuple[LoopInfo, ...]) -> Quantity:
    """Reduce trips inside the innermost loop that becomes a loop of unknown bounds."""
    below, above = _violated(guard, loops)
    inside: Quantity = 1.0
    for loop in reversed(loops):
        if not loop.reduce:
            continue
        if guard.coefficients.get(loop.var) and loop.kind not in STRAIGHT_KINDS:
            bounded = where(_is_in_tile(guard, loops), 0.0, below + above)
            return where(bounded > 0.0, inside, math.inf)
        inside = inside * loop.extent
    return math.inf


def _violated(guard: MergedGuard, loops: tuple[LoopInfo, ...]) -> tuple[Quantity, Quantity]:
    """1 for each side, low and high, that some trips lie beyond; else 0."""
    low: Quantity = 0.0
    high: Quantity = 0.0
    for loop in loops:
        coefficient = guard.coefficients.get(loop.var, 0)
        if coefficient > 0:
            high = high + coefficient * loop.reach
        elif coefficient < 0:
            low = low + coefficient * loop.reach
    return where(low < guard.low, 1.0, 0.0), where(high >= guard.high, 1.0, 0.0)


def _reduce_tail(guard: MergedGuard, loops: tuple[LoopInfo, ...]) -> Quantity:
    """Copies of the body for the end of a reduction whose unrolled part does not divide it.

    All loops inside the outermost one of the axis (with more than one trip) are unrolled there.
    """
    reach: Quantity = 0.0
    inner: Quantity = 1.0
    outer: Quantity = 0.0
    unrolled: Quantity = 0.0
    for loop in loops:
        if not loop.reduce or not guard.coefficients.get(loop.var):
            continue
        reach = reach + loop.reach
        if loop.kind in STRAIGHT_KINDS:
            unrolled = unrolled + loop.reach
        else:
            inner = inner * where(outer > 0.0, loop.extent, 1.0)
            outer = larger(outer, where(loop.extent > 1.0, 1.0, 0.0))
    return where((unrolled > 0.0) & (reach >= guard.high), inner, 0.0)


def _stays_loop(
    guard: MergedGuard, bounds: list[tuple[MergedGuard, Quantity]], loops: tuple[LoopInfo, ...]
) -> Quantity:
    """1 where a loop is left around the copies of a reduce axis, else 0.

    Of two trips the last is the end: none is left unless padding (``bounds``) sets its bounds.
    """
    trips: Quantity = 1.0
    for loop in loops:
        if loop.var in guard.variables and loop.kind not in STRAIGHT_KINDS:
            trips = trips * loop.extent
    left = where(trips > 2.0, 1.0, 0.0)
    for padding, inside in bounds:
        if guard.variables & padding.variables:
            left = larger(left, where(inside < math.inf, 1.0, 0.0))
    return left


def _taps(guard: MergedGuard, loops: tuple[LoopInfo, ...]) -> Quantity:
    """Serial reduce trips that a guard depends on."""
    trips: Quantity = 1.0
    for loop in loops:
        if loop.reduce and loop.kind not in UNROLLED_KINDS and guard.coefficients.get(loop.var):
            trips = trips * loop.extent
    return trips
