"""Promote: a reduction into memory gets a register tile around its reduce loops.

    for k in 0..K:                            tile[0..4] = C[i + 0..4]
      for r in 0..4 unrolled:          ->     for k in 0..K:
        C[i + r] += A[i + r, k] * x[k]          for r in 0..4 unrolled: tile[r] += ...
                                              C[i + 0..4] = tile[0..4]

Only where all cells of the tile are known at compile time and the loop does nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.passes.affine import variables
from codegen.passes.rewrite import Nodes, is_dynamic, map_body
from codegen.passes.tiles import (
    Cells,
    allocated,
    fill,
    is_register_tile,
    register_limit,
    retarget,
    tile_of,
)
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Buffer,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Quasi,
    Store,
)
from sketch.nest.walk import store_loads, stores
from sketch.target.target import Target


def promote(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with register tiles around reductions into memory."""
    return replace(nest, roots=_promote(nest.roots, target, frozenset()))


def _promote(nodes: Nodes, target: Target, tiles: frozenset[Buffer]) -> Nodes:
    return reused([_promote_node(node, target, tiles) for node in nodes], nodes)


def _promote_node(node: Node, target: Target, tiles: frozenset[Buffer]) -> Node:
    if isinstance(node, Allocate) and is_register_tile(node, target):
        tiles |= {node.buffer}
    if isinstance(node, Loop) and is_dynamic(node) and node.kind is LoopKind.SERIAL:
        update = single_update(node)
        if update is not None and update.store.targets[0] not in tiles:
            tile = _tile(node, update, target)
            if tile is not None:
                return tile
    return map_body(node, lambda body: _promote(body, target, tiles))


@dataclass(frozen=True, slots=True)
class Update:
    """The only statement of a loop, which reduces, and the static loops that index its result."""

    store: Store
    loops: tuple[Loop, ...]
    inner: frozenset[LoopVar]


def single_update(loop: Loop) -> Update | None:
    """The update of a loop that does nothing but reduce into fixed cells."""
    found = list(stores((loop,)))
    if len(found) != 1:
        return None
    store, around = found[0]
    if store.reducer is None or any(isinstance(i, Quasi) for i in store.indices):
        return None
    if any(load.buffer in store.targets for load in store_loads(store)):
        return None
    used = {var for i in store.indices if isinstance(i, Affine) for var in variables(i)}
    if any(is_dynamic(inner) and inner.var in used for inner in around):
        return None
    indexing = tuple(inner for inner in around if inner.var in used)
    return Update(store, indexing, frozenset(inner.var for inner in around))


def _tile(loop: Loop, update: Update, target: Target) -> Node | None:
    cells = 1
    for inner in update.loops:
        if inner.kind is LoopKind.UNROLLED:
            cells *= int(inner.extent)
    if cells > register_limit(target):
        return None
    store, loops = update.store, update.loops
    memory, tile = Cells(store.targets, store.indices), tile_of(store.targets, loops, "tile")
    indexing = {inner.var for inner in loops}
    guards = tuple(
        p for p in store.predicates if not variables(p.index) & (update.inner - indexing)
    )
    body = (
        *fill(tile, memory.loads(), loops, guards, store.stage, "in"),
        retarget(loop, tile),
        *fill(memory, tile.loads(), loops, guards, store.stage, "out"),
    )
    return allocated(tile, body)
