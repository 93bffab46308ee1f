"""Promote: a reduction into memory gets a register tile around its reduce loops.

    for k in 0..K:                            tile[0..4] = C[i + 0..4]
      for r in 0..4 unrolled:          ->     for k in 0..K:
        C[i + r] += A[i + r, k] * x[k]          for r in 0..4 unrolled: tile[r] += ...
                                              C[i + 0..4] = tile[0..4]

Only where all cells of the tile are known at compile time and the loop does nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.passes.affine import flatten, variables
from codegen.passes.rewrite import (
    Nodes,
    is_dynamic,
    map_body,
    store_loads,
    stores,
    substitute,
)
from sketch.loopnest import (
    Affine,
    Allocate,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Quasi,
    Scope,
    Store,
)
from sketch.target import Target


def promote(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with register tiles around reductions into memory."""
    return replace(nest, roots=_promote(nest.roots, target, frozenset()))


def _promote(nodes: Nodes, target: Target, tiles: frozenset[Buffer]) -> Nodes:
    new: list[Node] = []
    for node in nodes:
        new.append(_promote_node(node, target, tiles))
    same = all(a is b for a, b in zip(new, nodes, strict=True))
    return nodes if same else tuple(new)


def _promote_node(node: Node, target: Target, tiles: frozenset[Buffer]) -> Node:
    if isinstance(node, Allocate) and is_register_tile(node, target):
        tiles |= {node.buffer}
    if isinstance(node, Loop) and is_dynamic(node) and node.kind is LoopKind.SERIAL:
        update = _single_update(node)
        if update is not None and update.store.targets[0] not in tiles:
            tile = _tile(node, update, target)
            if tile is not None:
                return tile
    return map_body(node, lambda body: _promote(body, target, tiles))


def is_register_tile(node: Allocate, target: Target) -> bool:
    """Whether a private buffer is indexed by unrolled and vectorised variables only."""
    count = 0
    for store, loops in stores(node.body):
        static = {loop.var for loop in loops if not is_dynamic(loop)}
        loads = [(load.buffer, load.indices) for load in store_loads(store)]
        for buffer, indices in [*((t, store.indices) for t in store.targets), *loads]:
            if buffer is not node.buffer:
                continue
            form, quasi = flatten(buffer, indices)
            if quasi or not variables(form) <= static:
                return False
            cells = 1
            for loop in loops:
                if loop.kind is LoopKind.UNROLLED and form.coefficient(loop.var):
                    cells *= int(loop.extent)
            count = max(count, cells)
    return 0 < count <= register_limit(target)


def register_limit(target: Target) -> int:
    """Cells that a tile may have: a few more than there are registers still beat memory."""
    return 2 * target.registers


@dataclass(frozen=True, slots=True)
class _Update:
    """The only statement of a reduce loop, and the unrolled and vector loops that index it."""

    store: Store
    loops: tuple[Loop, ...]
    inner: frozenset[LoopVar]


def _single_update(loop: Loop) -> _Update | None:
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
    return _Update(store, indexing, frozenset(inner.var for inner in around))


def _tile(loop: Loop, update: _Update, target: Target) -> Node | None:
    cells = 1
    for inner in update.loops:
        if inner.kind is LoopKind.UNROLLED:
            cells *= int(inner.extent)
    if cells > register_limit(target):
        return None
    shape = tuple(int(inner.extent) * int(inner.stride) for inner in update.loops)
    strides = _strides(shape)
    indices = tuple(Affine(((inner.var, 1),)) for inner in update.loops)
    size = shape[0] * strides[0] if shape else 1
    tiles = tuple(
        Buffer(
            f"{buffer.name}.tile",
            buffer.dtype,
            shape,
            strides,
            (1,) * len(shape),
            Scope.LOCAL,
            size,
        )
        for buffer in update.store.targets
    )
    indexing = {inner.var for inner in update.loops}
    guards = tuple(
        p for p in update.store.predicates if not variables(p.index) & (update.inner - indexing)
    )
    body: list[Node] = []
    for tile, buffer in zip(tiles, update.store.targets, strict=True):
        body.append(_copy(update, guards, tile, indices, buffer, update.store.indices, "in"))
    body.append(_retarget(loop, tiles, indices))
    for tile, buffer in zip(tiles, update.store.targets, strict=True):
        body.append(_copy(update, guards, buffer, update.store.indices, tile, indices, "out"))
    result: Node | None = None
    for tile in tiles:
        result = Allocate(tile, (result,) if result is not None else tuple(body))
    return result


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _copy(
    update: _Update,
    guards: tuple[Predicate, ...],
    target: Buffer,
    indices: tuple[Affine | Quasi, ...],
    source: Buffer,
    origin: tuple[Affine | Quasi, ...],
    suffix: str,
) -> Node:
    """``target[indices] = source[origin]`` in fresh copies of the indexing loops."""
    node: Node = Store(
        (target,), indices, (BufferLoad(source, origin),), None, guards, update.store.stage
    )
    fresh = {loop.var: LoopVar(f"{loop.var.name}.{suffix}") for loop in update.loops}
    renamed = substitute((node,), {old: Affine(((new, 1),)) for old, new in fresh.items()})
    for loop in reversed(update.loops):
        renamed = (replace(loop, var=fresh[loop.var], body=renamed, clip=(), axis_kind="spatial"),)
    return renamed[0]


def _retarget(node: Node, tiles: tuple[Buffer, ...], indices: tuple[Affine, ...]) -> Node:
    if isinstance(node, Store):
        return replace(node, targets=tiles, indices=indices)
    return map_body(node, lambda body: tuple(_retarget(child, tiles, indices) for child in body))
