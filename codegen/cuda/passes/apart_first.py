"""Results that share no operand are computed one after another, each with all terms of a piece.

    unrolled k in 0..4                         unrolled x in 0..16
      unrolled x in 0..16                        unrolled k in 0..4
        unrolled i, j                    ->        unrolled i, j
          acc[x,i,j] += a[x,i,k] * b[x,j,k]          acc[x,i,j] += a[x,i,k] * b[x,j,k]

A load brings four terms in a row.  With the terms outside, those of all ``x`` are in registers at a
time.  Each result adds its terms in the same order.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import Loop, LoopKind, LoopNest, LoopVar, Node, Scope, Store
from sketch.nest.walk import index_variables, store_loads


def apart_first(nest: LoopNest) -> LoopNest:
    """The nest with loops over such results around the last loop over terms."""
    return replace(nest, roots=_visit(nest.roots))


def _visit(nodes: Nodes) -> Nodes:
    return reused([_visit_node(node) for node in nodes], nodes)


def _visit_node(node: Node) -> Node:
    if isinstance(node, Store):
        return node
    if not isinstance(node, Loop) or not _unrolled(node):
        return map_body(node, _visit)
    chain, body = [node], node.body
    while len(body) == 1 and isinstance(body[0], Loop) and _unrolled(body[0]):
        chain.append(body[0])
        body = body[0].body
    if len(body) != 1 or not isinstance(body[0], Store):
        return map_body(node, _visit)
    apart = _apart(body[0])
    terms = [place for place, loop in enumerate(chain) if loop.axis_kind == "reduce"]
    if not terms:
        return node
    inside = chain[terms[-1] :]
    first = [loop for loop in inside if loop.var in apart and loop.axis_kind == "spatial"]
    if not first:
        return node
    rest = [loop for loop in inside if loop.var not in apart or loop.axis_kind != "spatial"]
    new: Node = body[0]
    for loop in reversed([*chain[: terms[-1]], *first, *rest]):
        new = replace(loop, body=(new,))
    return new


def _unrolled(loop: Loop) -> bool:
    return loop.kind is LoopKind.UNROLLED and not loop.clip


def _apart(store: Store) -> set[LoopVar]:
    """The variables that tell apart what all operands are, which are shared tiles."""
    reads = () if store.reducer is None else store_loads(store)
    loads = [load for load in reads if load.buffer.scope is not Scope.LOCAL]
    if len(loads) < 2 or any(load.buffer.scope is not Scope.SHARED for load in loads):
        return set()
    used = [set[LoopVar]().union(*map(index_variables, load.indices)) for load in loads]
    return set.intersection(*used)
