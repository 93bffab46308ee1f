"""Turned sums: what lanes have reduced apart, for as many results as there are lanes at a time.

    local acc[i]:                            local turned[p, i]:
      for p in 0..P:                           for p in 0..P: vectorized i: turned[p, i] = x[i, p]
        vectorized i: acc[i] += x[i, p]        local acc[i]:
                                        ->       for p in 0..P: vectorized i: acc[i] += turned[p, i]

See ``turned_copies``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.passes.affine import flatten, interval, loop_range
from codegen.passes.rewrite import Nodes, map_body, with_body
from codegen.passes.turned_copies import LEAST_SIDE, fills_squares, turned_copy
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import Allocate, BufferLoad, Loop, LoopNest, Node, Scope, Store
from sketch.nest.walk import stores


@dataclass(frozen=True, slots=True)
class _TurnedSum:
    """Loops around one statement that adds elements which lie far apart.

    Attributes:
        outer: all loops but that of the lanes, outermost first.
        lanes: the innermost loop.
        store: the statement.
        load: what it adds.
    """

    outer: tuple[Loop, ...]
    lanes: Loop
    store: Store
    load: BufferLoad

    @property
    def terms(self) -> tuple[Loop, ...]:
        """They walk along what is contiguous, outermost first."""
        return tuple(loop for loop in self.outer if loop.axis_kind == "reduce")

    @property
    def points(self) -> tuple[Loop, ...]:
        """They walk over the results of a lane, outermost first."""
        return tuple(loop for loop in self.outer if loop.axis_kind == "spatial")


def turned_sums(nest: LoopNest) -> LoopNest:
    """The nest in which such sums read whole vectors."""
    return replace(nest, roots=_nodes(nest.roots))


def _nodes(nodes: Nodes) -> Nodes:
    return reused([_node(node) for node in nodes], nodes)


def _node(node: Node) -> Node:
    if isinstance(node, Allocate):
        for place, inner in enumerate(node.body):
            found = _sum_of(inner, node)
            if found is not None:
                return _turned(node, place, found)
    return map_body(node, _nodes)


def _sum_of(node: Node, home: Allocate) -> _TurnedSum | None:
    """A sum into ``home``'s buffer that is worth a turned copy; None for other nodes."""
    loops, store = _perfect(node)
    if store is None or store.reducer is None or store.targets != (home.buffer,):
        return None
    *outer, lanes = loops
    (load,) = store.values
    if not isinstance(load, BufferLoad) or not outer or outer[0].axis_kind != "reduce":
        return None
    found = _TurnedSum(tuple(outer), lanes, store, load)
    if not fills_squares(lanes, load.dtype) or not _is_whole(found) or not _lies_apart(found):
        return None
    # LLVM takes seconds for hundreds of vectors of, say, 13 elements: it loads them in parts.
    if int(lanes.extent) & (int(lanes.extent) - 1):
        return None
    # Where it is filled beside the sum, the copy would come too early.
    filled = any(load.buffer in inner.targets for inner, _ in stores(home.body))
    return None if filled else found


def _perfect(node: Node) -> tuple[list[Loop], Store | None]:
    """The loops around a single statement, outermost first; no statement for other nodes."""
    loops: list[Loop] = []
    while isinstance(node, Loop) and len(node.body) == 1 and not node.clip:
        loops.append(node)
        node = node.body[0]
    return loops, node if loops and isinstance(node, Store) else None


def _is_whole(found: _TurnedSum) -> bool:
    """Whether the loops of terms walk along neighbouring elements, one after the other, and no
    predicate leaves some out.
    """
    form, _ = flatten(found.load.buffer, found.load.indices)
    step = 1
    for loop in reversed(found.terms):
        if int(loop.stride) != step or form.coefficient(loop.var) != 1:
            return False
        step *= int(loop.extent)
    tested = any(
        predicate.index.coefficient(loop.var)
        for predicate in found.store.predicates
        for loop in found.terms
    )
    return step >= LEAST_SIDE and not tested


def _lies_apart(found: _TurnedSum) -> bool:
    """Whether lanes read elements of one private buffer far apart, and all of them are there."""
    buffer = found.load.buffer
    if buffer.scope is not Scope.LOCAL or buffer.swizzled:
        return False
    form, quasi = flatten(buffer, found.load.indices)
    ranges = {loop.var: loop_range(loop) for loop in (*found.outer, found.lanes)}
    if quasi or any(var not in ranges for var, _ in form.terms):
        return False
    low, high = interval(form, ranges)
    return form.coefficient(found.lanes.var) > 1 and low >= 0 and high < int(buffer.size)


def _turned(home: Allocate, place: int, found: _TurnedSum) -> Node:
    """``home`` behind the copy, with the sum of the copy."""
    load, copied = turned_copy(found.load, found.points, found.terms, found.lanes)
    node: Node = replace(found.store, values=(load,))
    for loop in (found.lanes, *reversed(found.outer)):
        node = with_body(loop, (node,))
    body = (*home.body[:place], node, *home.body[place + 1 :])
    return Allocate(load.buffer, (copied, Allocate(home.buffer, body)))
