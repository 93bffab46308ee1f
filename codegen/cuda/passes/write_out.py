"""Loops over the terms of a shared tile are written out whole, as far as the code stays short.

    shared tile                            shared tile
      serial k.1 in 0..2                     unrolled k.1 in 0..2
        unrolled k.2, i, j: acc += ...  ->     unrolled k.2, i, j: acc += ...

So the loop over tiles has no loop inside.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import Allocate, Loop, LoopKind, LoopNest, LoopVar, Node, Scope, Store
from sketch.nest.walk import stores
from sketch.population.written_out_gpu import loads_of, written_out


def write_out(nest: LoopNest) -> LoopNest:
    """The nest with such loops unrolled."""
    return replace(nest, roots=_visit(nest.roots, False))


def _visit(nodes: Nodes, in_tile: bool) -> Nodes:
    return reused([_visit_node(node, in_tile) for node in nodes], nodes)


def _visit_node(node: Node, in_tile: bool) -> Node:
    if isinstance(node, Store):
        return node
    if isinstance(node, Loop) and in_tile:
        return _written(node)
    inside = in_tile or (isinstance(node, Allocate) and node.buffer.scope is Scope.SHARED)
    return map_body(node, lambda body: _visit(body, inside))


def _written(loop: Loop) -> Loop:
    """Loops straight around one another, the inner ones unrolled where that is short."""
    if loop.kind is LoopKind.THREAD:
        return replace(loop, body=_visit(loop.body, True))
    chain = [loop]
    while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Loop):
        chain.append(chain[-1].body[0])
    if not all(isinstance(node, Store) for node in chain[-1].body):
        return replace(loop, body=_visit(loop.body, True))
    copies: dict[LoopVar, int] = {}
    serial = []
    for each in chain:
        if each.kind is LoopKind.UNROLLED:
            copies[each.var] = int(each.extent)
        elif each.kind is LoopKind.SERIAL and not each.clip:
            serial.append(each)
        else:
            return loop
    serial.reverse()
    found = [store for store, _ in stores(chain[-1].body)]
    tested = any(store.reducer is not None and store.predicates for store in found)
    loads = sum(loads_of(store, copies) for store in found)
    short = written_out(prod(copies.values()), loads, [each.extent for each in serial], tested)
    chosen = {each for each, trips in zip(serial, short, strict=True) if trips == each.extent}
    node = chain[-1]
    for each in reversed(chain[:-1]):
        unrolled = replace(each, kind=LoopKind.UNROLLED) if each in chosen else each
        node = replace(unrolled, body=(node,))
    return node
