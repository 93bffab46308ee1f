"""Shared tiles end where all terms end that are read from them, not only where their tensor does.

    tile[d] = A[500*p + k + d]               tile[d] = A[500*p + k + d]  if k + d < 500
    acc += tile[k1]  if k + k1 < 500    ->   acc += tile[k1]  if k + k1 < 500

No statement reads the cells that go.  ``zero_fill`` makes them zero, and ``relax_guards`` then lets
all terms run: of a reduction in parts, one part has a tail as a whole reduction has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from codegen.passes.affine import Ranges, interval, loop_range, variables
from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.affine import UNBOUNDED
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Buffer,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.walk import store_loads, stores


def end_tiles(nest: LoopNest) -> LoopNest:
    """The nest with more guards on copies into shared memory."""
    return replace(nest, roots=_all(nest.roots, _Around({}, frozenset()), {}))


@dataclass(frozen=True, slots=True)
class _Around:
    """The loops around a node: all ranges, and the variables that are alike in all threads."""

    ranges: Ranges
    shared: frozenset[LoopVar]

    def inside(self, loop: Loop) -> _Around:
        """Inside one more loop."""
        alike = loop.kind not in (LoopKind.THREAD, LoopKind.VTHREAD)
        shared = self.shared | {loop.var} if alike else self.shared
        return _Around({**self.ranges, loop.var: loop_range(loop)}, shared)


@dataclass(frozen=True, slots=True)
class _End:
    """The coordinate ``dim`` of a tile and ``start`` are less than ``high`` in all that is read."""

    dim: int
    start: Affine
    high: int


_Ends = dict[Buffer, list[_End]]


def _all(nodes: Nodes, around: _Around, ends: _Ends) -> Nodes:
    return reused([_node(node, around, ends) for node in nodes], nodes)


def _node(node: Node, around: _Around, ends: _Ends) -> Node:
    match node:
        case Store():
            return _ended(node, around.ranges, ends.get(node.targets[0], []))
        case Loop():
            around = around.inside(node)
        case Allocate(buffer, body) if buffer.scope is Scope.SHARED:
            writers = [store for store, _ in stores(body) if buffer in store.targets]
            if len(writers) == 1 and writers[0].reducer is None:
                ends = {**ends, buffer: _ends_of(buffer, body, around.shared)}
    return map_body(node, lambda body: _all(body, around, ends))


def _ends_of(buffer: Buffer, body: Nodes, standing: frozenset[LoopVar]) -> list[_End]:
    """What holds for all loads of a buffer."""
    common: list[_End] | None = None
    for store, loops in stores(body):
        reduced = frozenset(loop.var for loop in loops if loop.axis_kind == "reduce")
        for load in store_loads(store):
            if load.buffer is buffer:
                found = list(_read_until(store, load.indices, standing, reduced))
                common = found if common is None else [end for end in common if end in found]
    return common or []


def _read_until(
    store: Store,
    indices: tuple[object, ...],
    standing: frozenset[LoopVar],
    reduced: frozenset[LoopVar],
) -> Iterator[_End]:
    """The ends of the terms of a reduction, as ends of the tile that one load reads."""
    for guard in store.predicates if store.reducer is not None else ():
        if guard.low > -UNBOUNDED or not variables(guard.index) & reduced:
            continue
        for dim, index in enumerate(indices):
            if not isinstance(index, Affine) or not variables(index) & reduced:
                continue
            start = guard.index + index.scale(-1)
            if variables(start) <= standing:
                yield _End(dim, start, guard.high)


def _ended(store: Store, ranges: Ranges, ends: list[_End]) -> Store:
    """A copy without the cells beyond the ends."""
    guards = store.predicates
    for end in ends:
        index = store.indices[end.dim]
        if not isinstance(index, Affine):
            continue
        own = Predicate(end.start + index, -UNBOUNDED, end.high)
        if not any(_implies(guard, own, ranges) for guard in guards):
            guards = (own, *(guard for guard in guards if not _implies(own, guard, ranges)))
    return store if guards is store.predicates else replace(store, predicates=guards)


def _implies(known: Predicate, other: Predicate, ranges: Ranges) -> bool:
    """Whether an upper bound implies another one; what they differ by is in its range."""
    if other.low > -UNBOUNDED or known.high >= UNBOUNDED:
        return False
    _, most = interval(other.index + known.index.scale(-1), ranges)
    return most + known.high <= other.high
