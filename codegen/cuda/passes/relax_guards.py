"""Guards of reductions go where zeros or unread accumulators make them superfluous.

    tile[d] = A[k0 + d] if k0 + d < K else 0      tile[d] = ...
    acc[r] += tile[k] * other[k]             ->   acc[r] += tile[k] * other[k]
      if i0 + r < M and k0 + k < K
    C[i0 + r] = acc[r]  if i0 + r < M             C[i0 + r] = acc[r]  if i0 + r < M

A guard goes if

- all that the term reads is zero where the guard fails, and such a term is the reducer's identity;
- or the accumulator is private, and every reader of a cell has a guard that implies it.

So does the end of a loop inside a tile beyond which all terms are such.

The first needs *all* reads to be zero: zero times infinity is not zero.  Only terms that read
nothing but shared memory, and private memory that has values, run unguarded, and only where their
indices stay inside their buffers also beyond the tensor: a tile that is read at other places too
may end with the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from codegen.passes.affine import variables
from codegen.passes.rewrite import Nodes, map_body, map_expr
from sketch.lang.affine import UNBOUNDED, Interval
from sketch.lang.expr import Const, Expr, Reducer, Select
from sketch.lang.rewrite import reused
from sketch.nest.intervals import predicates_of, value_interval
from sketch.nest.loopnest import (
    Affine,
    AffineValue,
    Allocate,
    Buffer,
    BufferLoad,
    Index,
    Loop,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.walk import buffer_loads, free_values, store_loads, stores
from sketch.oracle.evaluate import Evaluator, constant
from sketch.verify.facts import Facts
from sketch.verify.statements import visit_loads


def relax_guards(nest: LoopNest) -> LoopNest:
    """The nest with fewer predicates on its reductions."""
    outermost = Facts({}, {}, ())
    return replace(nest, roots=tuple(_relax(root, outermost, {}) for root in nest.roots))


@dataclass(frozen=True, slots=True, eq=False)
class _Tile:
    """A shared tile that is zero where one of ``guards`` fails; ``places`` is what fills it."""

    places: tuple[Affine, ...]
    guards: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Accumulator:
    """A private buffer.

    Attributes:
        standing: variables that stand still while it lives.
        readers: indices and guards of those who read its cells.
        whole: whether a statement without guards fills it: there is no cell without a value.
    """

    standing: frozenset[LoopVar]
    readers: tuple[tuple[tuple[Index, ...], tuple[Predicate, ...]], ...]
    whole: bool


_Known = Mapping[Buffer, _Tile | _Accumulator]


def _relax(node: Node, facts: Facts, known: _Known) -> Node:
    match node:
        case Store():
            return _relax_store(node, facts, known)
        case Loop():
            node = _without_ends(node, facts, known)
            facts = facts.inside(node)
        case Allocate(buffer, body):
            found = _describe(buffer, body, frozenset(facts.reaches))
            known = known if found is None else {**known, buffer: found}
    return map_body(node, lambda body: _relax_all(body, facts, known))


def _relax_all(nodes: Nodes, facts: Facts, known: _Known) -> Nodes:
    return reused([_relax(node, facts, known) for node in nodes], nodes)


def _describe(
    buffer: Buffer, body: Nodes, outer: frozenset[LoopVar]
) -> _Tile | _Accumulator | None:
    writers = [store for store, _ in stores(body) if buffer in store.targets]
    if buffer.scope is Scope.LOCAL:
        readers = tuple(
            (load.indices, store.predicates)
            for store, _ in stores(body)
            for load in store_loads(store)
            if load.buffer is buffer
        )
        return _Accumulator(outer, readers, any(not store.predicates for store in writers))
    return _tile(writers[0]) if len(writers) == 1 else None


def _tile(store: Store) -> _Tile | None:
    value = store.values[0]
    places = tuple(index for index in store.indices if isinstance(index, Affine))
    if store.reducer is not None or store.predicates or not isinstance(value, Select):
        return None
    guards = predicates_of(value.condition)
    zero = isinstance(value.otherwise, Const) and value.otherwise.value == 0
    known = guards is not None and zero and len(places) == len(store.indices)
    return _Tile(places, tuple(guards)) if known and guards is not None else None


def _without_ends(loop: Loop, facts: Facts, known: _Known) -> Loop:
    """The loop with all trips, where those that its ends leave out add nothing: so it can be
    written out.
    """
    for end in loop.clip:
        whole = replace(loop, clip=tuple(other for other in loop.clip if other is not end))
        if _adds_nothing_beyond(end, whole, facts, known):
            loop = whole
    return loop


def _adds_nothing_beyond(end: Predicate, loop: Loop, facts: Facts, known: _Known) -> bool:
    tiles = {b: tile for b, tile in known.items() if isinstance(tile, _Tile)}
    found = list(stores((loop,)))
    for store, loops in found:
        if store.reducer is None or len(store.targets) != 1:
            return False
        value, there = store.values[0], facts
        for inner in loops:
            there = there.inside(inner)
        neutral = _neutral_at_zero(value, store.reducer) and _reads_zeros(value, end, tiles)
        if not neutral or not _reads_inside(store, there):
            return False
    return bool(found)


def _relax_store(store: Store, facts: Facts, known: _Known) -> Store:
    if store.reducer is None or len(store.targets) != 1 or not store.predicates:
        return store
    if not all(_readable(load.buffer, known) for load in store_loads(store)):
        return store
    tiles = {b: tile for b, tile in known.items() if isinstance(tile, _Tile)}
    target = known.get(store.targets[0])
    neutral = _neutral_at_zero(store.values[0], store.reducer)
    for p in store.predicates:
        if (neutral and _reads_zeros(store.values[0], p, tiles)) or (
            isinstance(target, _Accumulator) and _unread(store, p, target)
        ):
            without = replace(store, predicates=tuple(q for q in store.predicates if q is not p))
            store = without if _reads_inside(without, facts) else store
    return store


def _readable(buffer: Buffer, known: _Known) -> bool:
    """Whether a buffer has values where a guard fails, and reading them costs no access to
    global memory.
    """
    if buffer.scope is Scope.LOCAL:
        found = known.get(buffer)
        return isinstance(found, _Accumulator) and found.whole
    return buffer.scope is Scope.SHARED


def _reads_inside(store: Store, facts: Facts) -> bool:
    """Whether all loads of a statement stay inside their buffers."""
    found: list[bool] = []
    facts = facts.also(store.predicates)
    for value in store.values:
        visit_loads(value, facts, lambda load, there: found.append(_inside(load, there)))
    return all(found)


def _inside(load: BufferLoad, facts: Facts) -> bool:
    return all(
        facts.within(index, int(extent))
        if isinstance(index, Affine)
        else _within(value_interval(index.expr, facts.interval), int(extent))
        for index, extent in zip(load.indices, load.buffer.shape, strict=True)
    )


def _within(bounds: Interval | None, extent: int) -> bool:
    """``Quasi.low`` and ``Quasi.high`` do not count: they hold where the guards do."""
    return bounds is not None and bounds[0] >= 0 and bounds[1] < extent


def _neutral_at_zero(value: Expr, reducer: Reducer) -> bool:
    """Whether a term is the reducer's identity where everything that it reads is zero."""
    if any(True for _ in free_values(value)):
        return False

    def leaf(node: Expr) -> Expr:
        match node:
            case BufferLoad():
                return Const(0, node.dtype)
            case AffineValue(index):  # of an axis of one element
                return Const(index.const, node.dtype)
            case _:
                return node

    with np.errstate(all="ignore"):
        term = Evaluator({}, lambda tensor: np.zeros(tensor.shape))(map_expr(value, leaf))
    return bool(term == constant(reducer.identity[0]))


def _reads_zeros(value: Expr, predicate: Predicate, tiles: Mapping[Buffer, _Tile]) -> bool:
    """Whether all loads of a term are zero where a predicate fails."""
    loads = list(buffer_loads(value))
    return bool(loads) and all(
        load.buffer in tiles and _implies(_guards_of(load, tiles[load.buffer]), predicate)
        for load in loads
    )


def _guards_of(load: BufferLoad, tile: _Tile) -> list[Predicate]:
    """The guards under which the element that is loaded was filled."""
    own = set[LoopVar]().union(*map(variables, tile.places))
    found = []
    for guard in tile.guards:
        form = guard.index
        for place, index in zip(tile.places, load.indices, strict=True):
            if not isinstance(index, Affine):
                return []
            form = _moved(form, place, index)
        if own.isdisjoint(variables(form)):
            found.append(Predicate(form, guard.low, guard.high))
    return found


def _moved(form: Affine, place: Affine, index: Affine) -> Affine:
    """A form over the loops that fill a tile, with another index in the place of theirs; those stay
    that are no multiple of it.
    """
    for var, coefficient in place.terms[:1]:
        times, rest = divmod(form.coefficient(var), coefficient)
        if times and not rest:
            return form + place.scale(-times) + index.scale(times)
    return form


def _unread(store: Store, predicate: Predicate, accumulator: _Accumulator) -> bool:
    """Whether no one reads the cells for which a predicate fails."""
    return any(
        isinstance(index, Affine) and _unread_along(dim, index, predicate, accumulator)
        for dim, index in enumerate(store.indices)
    )


def _unread_along(dim: int, index: Affine, predicate: Predicate, accumulator: _Accumulator) -> bool:
    """Whether the predicate is about coordinate ``dim`` of the cell alone, and readers have it."""
    own = _relative(predicate, index)
    if not variables(own.index) <= accumulator.standing:
        return False
    for indices, guards in accumulator.readers:
        read = indices[dim]
        if not isinstance(read, Affine):
            return False
        if not _implies([_relative(guard, read) for guard in guards], own):
            return False
    return True


def _relative(predicate: Predicate, index: Affine) -> Predicate:
    return Predicate(predicate.index + index.scale(-1), predicate.low, predicate.high)


def _implies(premises: Iterable[Predicate], conclusion: Predicate) -> bool:
    """Whether bounds that hold together imply another one: of the same form, or of one that is
    more, or less, for sure, as variables are not negative.
    """
    low, high = -math.inf, math.inf
    for premise in premises:
        first, last = _bounds(premise)
        further = (premise.index + conclusion.index.scale(-1)).terms
        if all(coefficient <= 0 for _, coefficient in further):
            low = max(low, first)
        if all(coefficient >= 0 for _, coefficient in further):
            high = min(high, last)
    needed = _bounds(conclusion)
    return low >= needed[0] and high <= needed[1]


def _bounds(predicate: Predicate) -> tuple[float, float]:
    """The range of the form without its constant: ``low <= terms < high``."""
    const = predicate.index.const
    low = -math.inf if predicate.low <= -UNBOUNDED else predicate.low - const
    high = math.inf if predicate.high >= UNBOUNDED else predicate.high - const
    return low, high
