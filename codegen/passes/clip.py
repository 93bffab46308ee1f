"""Clip: predicates that are the same for a whole loop body become bounds of the loop.

    for kh in 0..3:                                for kh in 0..3 clip 0 <= oh + kh - 1 < H:
      for r in 0..14 unrolled:             ->        for r in 0..14 unrolled:
        acc[r] += ...  if 0 <= oh + kh - 1 < H         acc[r] += ...

A predicate moves to the outermost loop all of whose statements carry it and inside of which none
of its variables is defined.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.passes.affine import variables
from codegen.passes.rewrite import Nodes, is_dynamic, map_body, without_predicates
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import Loop, LoopKind, LoopNest, LoopVar, Node, Predicate
from sketch.nest.walk import stores


def clip(nest: LoopNest) -> LoopNest:
    """The nest with loop-invariant predicates moved into ``Loop.clip``."""
    return replace(nest, roots=clip_nodes(nest.roots, frozenset()))


def clip_nodes(nodes: Nodes, outer: frozenset[LoopVar]) -> Nodes:
    """Clip the loops of a sequence; ``outer`` are the dynamic variables around it."""
    return reused([_clip_node(node, outer) for node in nodes], nodes)


def _clip_node(node: Node, outer: frozenset[LoopVar]) -> Node:
    if isinstance(node, Loop) and node.kind is LoopKind.TENSOR:
        return node  # one instruction: its statement is skipped, or is not
    if not isinstance(node, Loop):
        return map_body(node, lambda body: clip_nodes(body, outer))
    known = outer | {node.var} if is_dynamic(node) else outer
    common = [p for p in _common_predicates(node.body) if variables(p.index) <= known]
    if common:
        node = replace(node, clip=(*node.clip, *common), body=without_predicates(node.body, common))
    return map_body(node, lambda body: clip_nodes(body, known))


def _common_predicates(body: Nodes) -> list[Predicate]:
    """Predicates that every statement of the body carries."""
    common: list[Predicate] | None = None
    for store, _ in stores(body):
        if common is None:
            common = list(store.predicates)
        else:
            common = [p for p in common if p in store.predicates]
        if not common:
            return []
    return common or []
