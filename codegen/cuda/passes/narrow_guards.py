"""Sides of guards that the loops around them always keep are dropped.

    for i in 0..32: C[i] = ...  if 0 <= i < 30     ->     ...  if i < 30

What is left is shorter to read and cheaper to test.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.passes.affine import Ranges, interval, loop_range
from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.affine import UNBOUNDED
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import Loop, LoopNest, Node, Predicate, Store


def narrow_guards(nest: LoopNest) -> LoopNest:
    """The nest with one-sided predicates where one side binds."""
    return replace(nest, roots=_narrow(nest.roots, {}))


def _narrow(nodes: Nodes, ranges: Ranges) -> Nodes:
    return reused([_narrow_node(node, ranges) for node in nodes], nodes)


def _narrow_node(node: Node, ranges: Ranges) -> Node:
    if isinstance(node, Store):
        predicates = reused([_one_sided(p, ranges) for p in node.predicates], node.predicates)
        same = predicates is node.predicates
        return node if same else replace(node, predicates=predicates)
    if isinstance(node, Loop):
        ranges = {**ranges, node.var: loop_range(node)}
    return map_body(node, lambda body: _narrow(body, ranges))


def _one_sided(predicate: Predicate, ranges: Ranges) -> Predicate:
    low, high = interval(predicate.index, ranges)
    new_low = -UNBOUNDED if low >= predicate.low else predicate.low
    new_high = UNBOUNDED if high < predicate.high else predicate.high
    if (new_low, new_high) == (predicate.low, predicate.high):
        return predicate
    return Predicate(predicate.index, new_low, new_high)
