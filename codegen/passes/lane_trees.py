"""Lane trees: what lanes have reduced apart is combined by halves, in registers.

    for r in 0..16:                      vectorized r in 0..16:
      m = max(m, part[r])          ->      m = max(m, part[r])

A loop over the lanes of a vector would store it and wait for one element after another.  A
vectorised loop of a reduction combines its upper lanes with its lower ones until one is left: four
steps for 16 lanes.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.passes.affine import flatten, variables
from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.dtypes import size_of
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import BufferLoad, Loop, LoopKind, LoopNest, Node, Scope, Store
from sketch.target.target import Target

_LEAST_LANES = 4  # fewer are as fast one after another


def lane_trees(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with loops that reduce the lanes of a vector vectorised."""
    return replace(nest, roots=_nodes(nest.roots, target))


def _nodes(nodes: Nodes, target: Target) -> Nodes:
    return reused([_node(node, target) for node in nodes], nodes)


def _node(node: Node, target: Target) -> Node:
    if isinstance(node, Loop) and _reduces_lanes(node, target):
        return replace(node, kind=LoopKind.VECTORIZED)
    return map_body(node, lambda body: _nodes(body, target))


def _reduces_lanes(loop: Loop, target: Target) -> bool:
    """Whether a loop does nothing but reduce neighbouring elements, as many as a vector has."""
    if loop.axis_kind != "reduce" or loop.kind not in (LoopKind.SERIAL, LoopKind.UNROLLED):
        return False
    if loop.clip or len(loop.body) != 1 or not isinstance(store := loop.body[0], Store):
        return False
    extent = int(loop.extent)
    fits = extent >= _LEAST_LANES and extent & (extent - 1) == 0
    guarded = any(loop.var in variables(p.index) for p in store.predicates)
    if store.reducer is None or not fits or guarded or int(loop.stride) != 1:
        return False
    return all(_is_vector(value, loop, target) for value in store.values)


def _is_vector(value: object, loop: Loop, target: Target) -> bool:
    if not isinstance(value, BufferLoad) or value.buffer.scope is Scope.TILE:
        return False
    form, quasi = flatten(value.buffer, value.indices)
    lanes = target.lanes(size_of(value.dtype))
    return not quasi and form.coefficient(loop.var) == 1 and int(loop.extent) <= lanes
