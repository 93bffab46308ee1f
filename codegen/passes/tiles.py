"""Register tiles: private buffers for the cells that a part of a nest accumulates into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from codegen.passes.affine import flatten, variables
from codegen.passes.rewrite import is_dynamic, map_body, substitute
from sketch.lang.expr import Expr, Reducer
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Buffer,
    BufferLoad,
    Index,
    Loop,
    LoopKind,
    LoopVar,
    Need,
    Node,
    Predicate,
    Scope,
    Store,
    row_major,
)
from sketch.nest.walk import store_loads, stores
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class Cells:
    """The elements that a statement accumulates into: buffers, and the indices of all of them."""

    buffers: tuple[Buffer, ...]
    indices: tuple[Index, ...]

    def loads(self) -> tuple[Expr, ...]:
        """Reads of the elements."""
        return tuple(BufferLoad(buffer, self.indices) for buffer in self.buffers)


def register_limit(target: Target) -> int:
    """Cells that a tile may have: a few more than there are registers still beat memory."""
    return 2 * target.registers


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


def tile_of(buffers: Sequence[Buffer], loops: Sequence[Loop], suffix: str) -> Cells:
    """New private cells like elements of ``buffers``, one for each point of ``loops``."""
    shape = tuple(int(loop.extent) * int(loop.stride) for loop in loops)
    strides = row_major(shape)
    size = int(shape[0]) * int(strides[0]) if shape else 1
    steps = (1,) * len(shape)
    tiles = tuple(
        Buffer(f"{b.name}.{suffix}", b.dtype, shape, strides, steps, Scope.LOCAL, size)
        for b in buffers
    )
    return Cells(tiles, tuple(Affine(((loop.var, 1),)) for loop in loops))


def fill(
    cells: Cells,
    values: Sequence[Expr],
    loops: Sequence[Loop],
    guards: tuple[Predicate, ...],
    stage: Compute | None,
    suffix: str,
    reducer: Reducer | None = None,
    needs: tuple[Need, ...] = (),
) -> tuple[Node, ...]:
    """``cells = values`` (or the reducer's combine with them) in fresh copies of ``loops``.

    Without a reducer, one nest for each buffer.

    Args:
        cells: buffers and indices of a tile.
        values: one for each buffer.
        loops: over the tile; each nest gets fresh copies.
        guards: conditions of the stores.
        stage: what the statements are a part of.
        suffix: of the loops' names.
        reducer: combines with what is there; None: overwrites, one nest for each buffer.
        needs: of what is combined.
    """
    if reducer is not None:
        total = Store(cells.buffers, cells.indices, tuple(values), reducer, guards, stage, needs)
        statements = [total]
    else:
        statements = [
            Store((buffer,), cells.indices, (value,), None, guards, stage)
            for buffer, value in zip(cells.buffers, values, strict=True)
        ]
    return tuple(_looped(statement, loops, suffix) for statement in statements)


def _looped(node: Node, loops: Sequence[Loop], suffix: str) -> Node:
    fresh = {loop.var: LoopVar(f"{loop.var.name}.{suffix}") for loop in loops}
    (node,) = substitute((node,), {old: Affine(((new, 1),)) for old, new in fresh.items()})
    for loop in reversed(loops):
        var = fresh[loop.var]
        node = replace(loop, var=var, body=(node,), clip=(), axis_kind="spatial")
    return node


def allocated(cells: Cells, body: tuple[Node, ...]) -> Node:
    """``body`` with private buffers that live as long as it does."""
    for buffer in cells.buffers:
        body = (Allocate(buffer, body),)
    return body[0]


def retarget(node: Node, cells: Cells) -> Node:
    """The node with its statements storing to other cells."""
    if isinstance(node, Store):
        return replace(node, targets=cells.buffers, indices=cells.indices)
    return map_body(node, lambda body: tuple(retarget(child, cells) for child in body))
