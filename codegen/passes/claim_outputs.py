"""Claim outputs: lines that a block of results is written to are fetched while products are added.

    parallel block:                       parallel block:
      local p: [T]                          local p: [T]
      for i in 0..N: p[...] += ...     ->   for i in 0..N claim y: p[...] += ...
      for t: y[block, t] = f(p, t)          for t: y[block, t] = f(p, t)

Results of a block are written all at once, and next to nothing is computed meanwhile: where the
output is not in a cache, each line has to come from memory first.  The sums before it take far
longer and leave memory idle, so that each of their trips, a turn, fetches a few of the lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from codegen.passes.affine import flatten
from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Claim,
    Loop,
    LoopKind,
    LoopNest,
    Node,
    Scope,
)
from sketch.nest.walk import stores
from sketch.target.target import Target

# A block that writes a smaller part of the first cache is written while the next one is computed.
_PARTS: Final = 8
_MOST_LINES: Final = 64  # that one trip of the loops that write them makes


def claim_outputs(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with claims of what blocks write to outputs that no cache holds."""
    return replace(nest, roots=_Claims(target).nodes(nest.roots, shared=False))


@dataclass(frozen=True, slots=True)
class _Claims:
    target: Target

    def nodes(self, nodes: Nodes, shared: bool) -> Nodes:
        """``shared``: whether a parallel loop is around them."""
        new = tuple(self.node(node, shared) for node in nodes)
        return nodes if all(a is b for a, b in zip(new, nodes, strict=True)) else new

    def node(self, node: Node, shared: bool) -> Node:
        if isinstance(node, Loop) and node.kind is not LoopKind.PARALLEL:
            return node
        if isinstance(node, Allocate) and shared:
            node = Allocate(node.buffer, self._claimed(node.body))
        inside = shared or isinstance(node, Loop)
        return map_body(node, lambda nodes: self.nodes(nodes, inside))

    def _claimed(self, nodes: Nodes) -> Nodes:
        """Nodes of a block of which the last one writes results, and one before it adds."""
        claim = self._claim(nodes[-1])
        sums = [n for n, node in enumerate(nodes[:-1]) if _adds(node)]
        if claim is None or not sums:
            return nodes
        longest = max(sums, key=lambda n: _operations(nodes[n]))
        done = _with_claim(nodes[longest], claim, ())
        if done is None:
            return nodes
        return (*nodes[:longest], done, *nodes[longest + 1 :])

    def _claim(self, node: Node) -> Claim | None:
        """The lines that a node writes of an output; None where there are few, or a cache holds
        them.
        """
        found = [
            (store, loops)
            for store, loops in stores((node,))
            if store.targets[0].scope is Scope.OUTPUT and store.reducer is None
        ]
        if len(found) != 1 or len(found[0][0].targets) > 1:
            return None
        (store, loops), target = found[0], found[0][0].targets[0]
        size = size_of(target.dtype)
        if int(target.size) * size <= self.target.l2_bytes:
            return None
        form, quasi = flatten(target, store.indices)
        walked = [loop for loop in loops if loop.kind is LoopKind.SERIAL and int(loop.extent) > 1]
        inside = {loop.var for loop in loops}
        lines = _lines(form, [x for x in loops if x.kind is not LoopKind.SERIAL], size, self.target)
        trips = [(int(x.extent), form.coefficient(x.var) * int(x.stride)) for x in walked]
        written = prod(count for count, _ in trips) * len(lines) * self.target.cache_line_bytes
        if quasi or not lines or written < self.target.l1_bytes // _PARTS:
            return None
        start = Affine(tuple(t for t in form.terms if t[0] not in inside), form.const)
        return Claim(target, start, tuple(trips), lines)


def _lines(form: Affine, loops: Sequence[Loop], line_size: int, target: Target) -> tuple[int, ...]:
    """First elements of the lines that loops write out, from the first of all."""
    step = target.cache_line_bytes // line_size
    ranges = [
        [form.coefficient(x.var) * int(x.stride) * n for n in range(int(x.extent))] for x in loops
    ]
    places = {sum(found) // step * step for found in product(*ranges)}
    return tuple(sorted(places)) if len(places) <= _MOST_LINES else ()


def _adds(node: Node) -> bool:
    return any(store.reducer is not None for store, _ in stores((node,)))


def _operations(node: Node) -> int:
    return sum(prod(int(loop.extent) for loop in loops) for _, loops in stores((node,)))


def _with_claim(node: Node, claim: Claim, around: tuple[Loop, ...]) -> Node | None:
    """A node whose outer loops take turns to fetch the lines; None where it has no such loops."""
    if not isinstance(node, Loop) or node.kind is not LoopKind.SERIAL or node.axis_kind == "reduce":
        return None
    turns = (*around, node)
    wanted = prod(count for count, _ in claim.trips)
    if prod(int(loop.extent) for loop in turns) < wanted and len(node.body) == 1:
        inner = _with_claim(node.body[0], claim, turns)
        if inner is not None:
            return replace(node, body=(inner,))
    known = tuple((loop.var, int(loop.extent), int(loop.stride)) for loop in turns)
    return replace(node, claim=replace(claim, turns=known))
