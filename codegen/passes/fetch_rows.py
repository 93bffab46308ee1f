"""Fetch rows: the last of several passes over a row fetches the row that comes next.

    for i in 0..N:                                 for i in 0..N:
      for k in 0..K: m = max(m, x[i, k])             for k in 0..K: m = max(m, x[i, k])
      for k in 0..K: y[k] = exp(x[i, k] - m)   ->    for k in 0..K fetch x + K: y[k] = exp(...)

The first pass over a row waits for memory and computes next to nothing, later ones compute and ask
memory for nothing; a processor fetches ahead by itself, but not beyond the row by much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from codegen.passes.affine import flatten
from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.dtypes import size_of
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Allocate,
    Branch,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Scope,
    Store,
)
from sketch.nest.walk import store_loads, stores
from sketch.target.target import Target

Reads = Sequence[tuple[tuple[Loop, ...], BufferLoad]]

_LEAST_PASSES: Final = 2
# The row at hand, the next one, and what is kept and then written of a row share the first cache.
_ARRAYS: Final = 3


def fetch_rows(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with fetches in last passes over what the trips of a loop read."""
    inputs = [buffer for buffer in nest.arguments if buffer.scope is Scope.INPUT]
    for buffer in inputs:
        nest = replace(nest, roots=_Fetch(buffer, target).nodes(nest.roots))
    return nest


class _Move(NamedTuple):
    """How loads of a pass move with the loops around it.

    Attributes:
        ahead: elements from one trip to the next.
        terms: all that moves the pass as a whole, by variable.
    """

    ahead: int
    terms: frozenset[tuple[LoopVar, int]]


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Of one buffer."""

    buffer: Buffer
    target: Target

    def nodes(self, nodes: Nodes) -> Nodes:
        return reused([self.node(node) for node in nodes], nodes)

    def node(self, node: Node) -> Node:
        if isinstance(node, Loop) and node.kind is LoopKind.SERIAL:
            ahead = self._ahead(node)
            if ahead:
                return replace(node, body=self._marked(node.body, ahead)[0])
        if isinstance(node, Loop) and node.kind is LoopKind.VECTORIZED:
            return node
        return map_body(node, self.nodes)

    def _ahead(self, rows: Loop) -> int:
        """How far the next trip of a loop moves in the buffer; 0 where its passes over what a trip
        reads are less than two, or do more than that.
        """
        passes = list(self._passes(rows.body))
        if len(passes) < _LEAST_PASSES:
            return 0
        first, *others = [self._moved(rows, *read) for one in passes for read in one]
        if first is None or any(move != first for move in others):
            return 0
        room = self.target.l1_bytes // (_ARRAYS * size_of(self.buffer.dtype))
        return first.ahead if first.ahead <= room else 0

    def _passes(self, body: Nodes) -> Iterator[Reads]:
        """The loads of each loop in the body that reads the buffer; cases of a branch are one."""
        for node in body:
            if isinstance(node, Allocate):
                yield from self._passes(node.body)
                continue
            found = self._reads((node,))
            if found and not isinstance(node, Store):
                yield found

    def _reads(self, nodes: Nodes) -> Reads:
        """The loads of the buffer, with the loops around them."""
        return [
            (around, load)
            for store, around in stores(nodes)
            for load in store_loads(store)
            if load.buffer is self.buffer
        ]

    def _moved(self, rows: Loop, around: tuple[Loop, ...], load: BufferLoad) -> _Move | None:
        """None for a load of no vector, or of elements that the next trip reads, too."""
        form, quasi = flatten(self.buffer, load.indices)
        lanes = around[-1] if around and around[-1].kind is LoopKind.VECTORIZED else None
        if quasi or lanes is None or form.coefficient(lanes.var) != 1:
            return None
        ahead = form.coefficient(rows.var) * int(rows.stride)
        span = 0
        for loop in around:
            step = form.coefficient(loop.var) * int(loop.stride)
            if step <= 0 and int(loop.extent) > 1:
                return None
            span += step * (int(loop.extent) - 1)
        inside = {loop.var for loop in around}
        outside = frozenset((v, c) for v, c in form.terms if v not in inside)
        return _Move(ahead, outside) if span < ahead else None

    def _marked(self, nodes: Nodes, ahead: int) -> tuple[Nodes, bool]:
        """``nodes`` with the fetch in the last pass, and whether there is one."""
        new = list(nodes)
        for place in range(len(new) - 1, -1, -1):
            new[place], done = self._marked_node(new[place], ahead)
            if done:
                return tuple(new), True
        return nodes, False

    def _marked_node(self, node: Node, ahead: int) -> tuple[Node, bool]:
        if isinstance(node, Store) or not self._reads((node,)):
            return node, False
        if isinstance(node, Loop):
            return replace(node, fetch=(*node.fetch, (self.buffer, ahead))), True
        if isinstance(node, Branch):
            cases = [replace(c, body=self._marked(c.body, ahead)[0]) for c in node.cases]
            return Branch(node.index, tuple(cases)), True
        body, done = self._marked(node.body, ahead)
        return Allocate(node.buffer, body), done
