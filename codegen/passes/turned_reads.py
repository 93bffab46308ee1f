"""Turned reads: a function of what is transposed on the way.

    for p in 0..P:                        for p in 0..P: vectorized i: turned[p, i] = x[i, p]
      vectorized i:                ->     for p in 0..P:
        y[p, i] = f(x[i, p])                vectorized i: y[p, i] = f(turned[p, i])

A plain copy is turned where it is; see ``turned_copies``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from codegen.passes.affine import flatten
from codegen.passes.rewrite import Nodes, map_body, map_expr, with_body
from codegen.passes.turned_copies import LEAST_SIDE, fills_squares, turned_copy
from sketch.lang.affine import UNBOUNDED
from sketch.lang.expr import Expr, Select
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Branch,
    Buffer,
    BufferLoad,
    Case,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.walk import value_operands
from sketch.target.target import Target

# Copies share the first cache with what is read besides and with what is written.
_CACHE_SHARE: Final = 2
_MOST_COPIES: Final = 4

_Place = tuple[Buffer, Affine]


@dataclass(frozen=True, slots=True)
class _Tiles:
    """All trips of a loop that is clipped at the end of an axis, or not at all.

    Attributes:
        loop: it.
        start: of a tile, on the axis.
        end: of the axis; infinite where nothing is clipped.
        aligned: whether tiles start at multiples of their extent.
    """

    loop: Loop
    start: Affine
    end: int
    aligned: bool

    @property
    def last(self) -> int:
        """The last start of a whole tile."""
        return self.end - int(self.loop.extent)

    @property
    def rest(self) -> int:
        """Trips of the tile at the end; 0 where all are whole, or it begins anywhere."""
        return self.end % int(self.loop.extent) if self.aligned else 0


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement in loops.

    Attributes:
        loop: the outermost one.
        points: unrolled loops in it, outermost first.
        lanes: the innermost one.
        store: the statement.
    """

    loop: Loop
    points: tuple[Loop, ...]
    lanes: Loop
    store: Store


def turned_reads(nest: LoopNest, target: Target) -> LoopNest:
    """The nest in which lanes read neighbours wherever ``loop`` walks along what they read."""
    return replace(nest, roots=_nodes(nest.roots, target, {}))


def _nodes(nodes: Nodes, target: Target, strides: Mapping[LoopVar, int]) -> Nodes:
    return reused([_node(node, target, strides) for node in nodes], nodes)


def _node(node: Node, target: Target, strides: Mapping[LoopVar, int]) -> Node:
    """``strides``: of the loops around it."""
    if not isinstance(node, Loop):
        return map_body(node, lambda body: _nodes(body, target, strides))
    tiles = _tiles(node, strides)
    if tiles is None or (whole := _turned_tile(tiles, int(node.extent), target)) is None:
        inside = {**strides, node.var: int(node.stride)}
        return map_body(node, lambda body: _nodes(body, target, inside))
    if not node.clip:
        return whole
    cut = None if tiles.rest < LEAST_SIDE else _turned_tile(tiles, tiles.rest, target)
    cases = (
        Case(-UNBOUNDED, tiles.last, (whole,)),
        Case(tiles.last + 1, tiles.end - 1, (cut or node,)),
        Case(tiles.end, UNBOUNDED, ()),
    )
    return Branch(tiles.start, cases)


def _turned_tile(tiles: _Tiles, trips: int, target: Target) -> Node | None:
    """So many trips, all of which the clip leaves, with copies; None where nothing is copied."""
    found = _statement(replace(tiles.loop, extent=trips, clip=()), tiles.loop.clip)
    reads = {} if found is None else _far_reads(found, target)
    return _turned(found, reads) if found is not None and reads else None


def _tiles(loop: Loop, strides: Mapping[LoopVar, int]) -> _Tiles | None:
    """None where the clip of a loop asks for something else than an end."""
    starts = [
        Affine(tuple(x for x in p.index.terms if x[0] is not loop.var), p.index.const)
        for p in loop.clip
    ]
    ends = all(_begins_at_0(p) and p.index.coefficient(loop.var) == 1 for p in loop.clip)
    if not ends or any(_key(start) != _key(starts[0]) for start in starts):
        return None
    start = starts[0] if starts else Affine(())
    steps = [coefficient * strides.get(var, 1) for var, coefficient in start.terms]
    aligned = all(step % int(loop.extent) == 0 for step in (start.const, *steps))
    return _Tiles(loop, start, min((p.high for p in loop.clip), default=UNBOUNDED), aligned)


def _begins_at_0(predicate: Predicate) -> bool:
    """Whether its lower side always holds: loop variables are never negative."""
    index = predicate.index
    positive = index.const >= 0 and all(coefficient > 0 for _, coefficient in index.terms)
    return positive and predicate.low <= 0


def _key(form: Affine) -> tuple[frozenset[tuple[LoopVar, int]], int]:
    """Equal for equal forms, in whatever order."""
    return frozenset(form.terms), form.const


def _fulfilled(predicate: Predicate, clip: Sequence[Predicate]) -> bool:
    """Whether a predicate holds in all trips that a clip leaves."""
    same = (p for p in clip if _key(p.index) == _key(predicate.index))
    return _begins_at_0(predicate) and any(p.high <= predicate.high for p in same)


def _statement(loop: Loop, clip: Sequence[Predicate]) -> _Statement | None:
    """What a serial loop has inside, if that is one statement for neighbouring places.

    ``clip``: holds in all trips.
    """
    if loop.kind is not LoopKind.SERIAL or loop.axis_kind != "spatial" or int(loop.stride) != 1:
        return None
    loops, node = list[Loop](), loop.body[0]
    while isinstance(node, Loop) and len(node.body) == 1 and not node.clip:
        loops.append(node)
        node = node.body[0]
    if len(loop.body) > 1 or not loops or not isinstance(node, Store):
        return None
    *points, lanes = loops
    left = [test for test in node.predicates if not _fulfilled(test, clip)]
    node = replace(node, predicates=tuple(left))
    unrolled = all(inner.kind is LoopKind.UNROLLED for inner in points)
    return (
        _Statement(loop, tuple(points), lanes, node) if unrolled and _writes(node, lanes) else None
    )


def _writes(store: Store, lanes: Loop) -> bool:
    """Whether a statement computes something, and writes it side by side."""
    copies = isinstance(store.values[0], BufferLoad)
    if store.reducer is not None or len(store.targets) > 1 or copies:
        return False
    (target,) = store.targets
    form, quasi = flatten(target, store.indices)
    return not quasi and target.scope is not Scope.TILE and form.coefficient(lanes.var) == 1


def _far_reads(found: _Statement, target: Target) -> dict[_Place, BufferLoad]:
    """What lanes read far apart and the loop side by side, by where it is; none if that is too
    much for a copy, or left out at some trips.
    """
    loop, lanes = found.loop, found.lanes
    tested = any(predicate.index.coefficient(loop.var) for predicate in found.store.predicates)
    if tested or int(loop.extent) < LEAST_SIDE:
        return {}
    reads: dict[_Place, BufferLoad] = {}
    for load in _certain(found.store.values[0]):
        form, quasi = flatten(load.buffer, load.indices)
        apart = form.coefficient(lanes.var) > int(lanes.extent) // 2
        if apart and not quasi and form.coefficient(loop.var) == 1 and _is_plain(load, found):
            reads.setdefault((load.buffer, form), load)
    elements = int(loop.extent) * int(lanes.extent)
    room = target.l1_bytes // _CACHE_SHARE
    return reads if len(reads) <= _MOST_COPIES and 4 * elements * len(reads) <= room else {}


def _is_plain(load: BufferLoad, found: _Statement) -> bool:
    """Whether it is read from memory that the statement does not write."""
    buffer, (target,) = load.buffer, found.store.targets
    simple = buffer.scope is not Scope.TILE and not buffer.swizzled and buffer is not target
    return simple and fills_squares(found.lanes, buffer.dtype)


def _certain(value: Expr) -> Iterator[BufferLoad]:
    """The loads of an expression that no condition guards."""
    pending, seen = [value], set[int]()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, BufferLoad):
            yield node
        elif isinstance(node, Select):
            pending.append(node.condition)
        else:
            pending += value_operands(node)


def _turned(found: _Statement, reads: dict[_Place, BufferLoad]) -> Node:
    """The loop behind the copies, of which the statement reads; those that were unrolled in it are
    around both, so that copies are small.
    """
    copies: dict[_Place, BufferLoad] = {}
    before: list[Node] = []
    for place, load in reads.items():
        copies[place], filled = turned_copy(
            load, (), [found.loop], found.lanes, found.store.predicates
        )
        before.append(filled)

    def read(node: Expr) -> Expr:
        if not isinstance(node, BufferLoad):
            return node
        form, quasi = flatten(node.buffer, node.indices)
        return node if quasi else copies.get((node.buffer, form), node)

    node: Node = replace(found.store, values=(map_expr(found.store.values[0], read),))
    for loop in (found.lanes, found.loop):
        node = with_body(loop, (node,))
    nodes: Nodes = (*before, node)
    for copy in copies.values():
        nodes = (Allocate(copy.buffer, nodes),)
    for point in reversed(found.points):
        nodes = (replace(point, kind=LoopKind.SERIAL, body=nodes),)
    return nodes[0]
