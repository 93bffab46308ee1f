"""Start from: what is sent to places is added to the data themselves, not to zeros.

    for r: w[r] = 0                              for r: out[r] = data[r]
    for e: w[place[e]] += x[e]           ->      for e: out[place[e]] += x[e]
    for r: out[r] = data[r] + w[r]

Two arrays less are read, and one less is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.expr import Binary, Expr
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    BufferLoad,
    Index,
    LoopNest,
    Node,
    Quasi,
    Scope,
    Store,
)
from sketch.nest.walk import accesses, store_loads, stores

_GIVEN = (Scope.INPUT, Scope.CONSTANT)


def start_from(nest: LoopNest) -> LoopNest:
    """The nest with sums that start from the data that they were added to afterwards."""
    for buffer in nest.workspaces:
        start = _start(nest, buffer)
        if start is not None:
            nest = _without(nest, buffer, start)
    return nest


@dataclass(frozen=True, slots=True, eq=False)
class _Start:
    """What sums in a workspace start from.

    Attributes:
        first: stores zeros in the workspace.
        terms: adds to them.
        data: what the sums are added to.
        out: where the results go.
        last: the root that adds them.
    """

    first: Store
    terms: Store
    data: Buffer
    out: Buffer
    last: Node


def _start(nest: LoopNest, buffer: Buffer) -> _Start | None:
    uses = [
        (root, store)
        for root in nest.roots
        for store, _ in stores((root,))
        if any(used is buffer for used, _ in accesses(store))
    ]
    if len(uses) != 3:
        return None
    (_, first), (_, terms), (last, store) = uses
    sends = any(isinstance(index, Quasi) for index in terms.indices)
    if first.targets != (buffer,) or terms.targets != (buffer,) or not sends:
        return None
    if first.reducer is not None or terms.reducer is None or store.reducer is not None:
        return None
    if len(list(stores((last,)))) != 1 or any(x.buffer is buffer for x in store_loads(terms)):
        return None
    data, (out, *others) = _added(store, buffer, terms), store.targets
    if data is None or others or not _is_alike(data, buffer) or not _is_alike(out, buffer):
        return None
    return _Start(first, terms, data, out, last) if _is_new(nest, out, last) else None


def _added(store: Store, buffer: Buffer, terms: Store) -> Buffer | None:
    """The data that a statement adds the sums of ``buffer`` to, element by element."""
    (value,) = store.values
    assert terms.reducer is not None
    (combined,) = terms.reducer.result
    if not isinstance(value, Binary) or not isinstance(combined, Binary) or value.op != combined.op:
        return None
    sides: Sequence[Expr] = (value.lhs, value.rhs)
    loads = [side for side in sides if isinstance(side, BufferLoad)]
    if len(loads) < len(sides) or not all(_is_same(x.indices, store.indices) for x in loads):
        return None
    (data, *more) = [x.buffer for x in loads if x.buffer is not buffer] or [buffer]
    return data if not more and data.scope in _GIVEN else None


def _is_alike(one: Buffer, other: Buffer) -> bool:
    """Whether elements of one index lie at one place, in one type."""
    return (one.dtype, one.shape, one.strides, one.steps) == (
        other.dtype,
        other.shape,
        other.strides,
        other.steps,
    )


def _is_same(indices: tuple[Index, ...], others: tuple[Index, ...]) -> bool:
    return all(
        isinstance(a, Affine)
        and isinstance(b, Affine)
        and dict(a.terms) == dict(b.terms)
        and a.const == b.const
        for a, b in zip(indices, others, strict=True)
    )


def _is_new(nest: LoopNest, out: Buffer, last: Node) -> bool:
    """Whether no statement uses ``out`` before the root ``last``."""
    before = nest.roots[: nest.roots.index(last)]
    return not any(used is out for store, _ in stores(before) for used, _ in accesses(store))


def _without(nest: LoopNest, buffer: Buffer, start: _Start) -> LoopNest:
    """The nest without a workspace, and without the root that read it."""

    def changed(nodes: Nodes) -> Nodes:
        return tuple(node(each) for each in nodes)

    def node(each: Node) -> Node:
        if each is start.first:
            data = BufferLoad(start.data, start.first.indices)
            return replace(start.first, targets=(start.out,), values=(data,))
        if each is start.terms:
            return replace(start.terms, targets=(start.out,))
        return each if isinstance(each, Store) else map_body(each, changed)

    roots = changed(tuple(root for root in nest.roots if root is not start.last))
    workspaces = tuple(other for other in nest.workspaces if other is not buffer)
    return replace(nest, roots=roots, workspaces=workspaces)
