"""Shared tiles are zero where they reach beyond their tensor.

    tile[d] = A[k + d]  if k + d < K     ->     tile[d] = A[k + d] if k + d < K else 0

No statement reads such cells before; ``relax_guards`` then lets terms of zeros run.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.cuda.conditions import condition_of
from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.expr import Const, Select
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Allocate,
    Buffer,
    LoopNest,
    Node,
    Scope,
    Store,
)
from sketch.nest.walk import stores


def zero_fill(nest: LoopNest) -> LoopNest:
    """The nest with unguarded copies into shared memory."""
    return replace(nest, roots=_fill(nest.roots, frozenset()))


def _fill(nodes: Nodes, tiles: frozenset[Buffer]) -> Nodes:
    return reused([_fill_node(node, tiles) for node in nodes], nodes)


def _fill_node(node: Node, tiles: frozenset[Buffer]) -> Node:
    if isinstance(node, Store):
        return _fill_store(node) if node.targets[0] in tiles else node
    if isinstance(node, Allocate) and node.buffer.scope is Scope.SHARED:
        writers = [s for s, _ in stores(node.body) if node.buffer in s.targets]
        if len(writers) == 1:
            tiles |= {node.buffer}
    return map_body(node, lambda body: _fill(body, tiles))


def _fill_store(store: Store) -> Store:
    if store.reducer is not None or len(store.targets) != 1 or not store.predicates:
        return store
    condition = condition_of(store.predicates)
    if condition is None:
        return replace(store, predicates=())
    value = store.values[0]
    filled = Select(condition, value, Const(0, value.dtype))
    return replace(store, values=(filled,), predicates=())
