"""Barriers between threads that write shared memory and threads that read it.

    serial k                            serial k
      cooperative: fill tile              barrier            (readers of the last trip)
      ... += tile[...]           ->       cooperative: fill tile
                                          barrier
                                          ... += tile[...]

A barrier comes before the first node that touches shared memory in conflict with what was touched
since the last one, outside all loops that need it only on entry; none comes before a loop whose
trips start with one.  All threads must reach it: its loops may not depend on the thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from codegen.cuda.device import (
    Barrier,
    BeginProducts,
    Combine,
    Cooperative,
    Declare,
    DeviceFunction,
    DeviceNode,
    EndProducts,
    Fetch,
    For,
    LoadFragment,
    Move,
    Multiply,
    MultiplyTiles,
    Pipeline,
    RoundPiece,
    WaitProducts,
    walk_device,
)
from codegen.errors import CodegenError
from codegen.passes.affine import variables
from sketch.nest.loopnest import Buffer, LoopVar, Scope, Store
from sketch.nest.walk import store_loads


def insert_barriers(function: DeviceFunction) -> DeviceFunction:
    """The function with every barrier it needs.

    Raises CodegenError where some threads would not reach a barrier.
    """
    divergent = frozenset(binding.var for binding in function.threads)
    body, _ = _insert(function.body, _Touched(), divergent)
    return replace(function, body=body)


@dataclass(frozen=True, slots=True)
class _Touched:
    """Shared buffers that were read and written since the last barrier."""

    read: frozenset[Buffer] = frozenset()
    written: frozenset[Buffer] = frozenset()

    def __or__(self, other: _Touched) -> _Touched:
        return _Touched(self.read | other.read, self.written | other.written)

    def conflicts(self, later: _Touched) -> bool:
        """Whether ``later`` must wait for this."""
        return bool(self.written & (later.read | later.written) or self.read & later.written)


def _insert(
    nodes: tuple[DeviceNode, ...], before: _Touched, divergent: frozenset[LoopVar]
) -> tuple[tuple[DeviceNode, ...], _Touched]:
    """Nodes with barriers, and what they leave touched."""
    new: list[DeviceNode] = []
    for node in nodes:
        kept = _Touched()
        if before.conflicts(_touched(node) if isinstance(node, For) else _first_touched(node)):
            kept, before = before, _Touched()
        waits = bool(kept.read or kept.written)
        made = node
        if isinstance(node, For):
            made, before = _insert_in_loop(node, before, divergent)
            if waits and _waits_first(made.body) is not False:
                # Without a trip there is no barrier either.
                waits, before = False, before | kept if node.clip else before
        elif isinstance(node, Combine) and node.scratch:
            before = _left_by(node)
        elif isinstance(node, Pipeline):
            body, inside = _insert(node.body, _Touched(), divergent)
            made = replace(node, body=body)
            before |= _touched(node) | inside
        else:
            before |= _touched(node)
        new += [Barrier(), made] if waits else [made]
    return tuple(new), before


def _waits_first(nodes: tuple[DeviceNode, ...]) -> bool | None:
    """Whether a barrier comes before the first node that touches shared memory; None: neither."""
    for node in nodes:
        if isinstance(node, Barrier):
            return True
        if isinstance(node, For):
            inner = _waits_first(node.body)
            if inner is False or (inner and not node.clip):
                return inner
        elif _touched(node) != _Touched():
            return False
    return None


def _insert_in_loop(
    loop: For, before: _Touched, divergent: frozenset[LoopVar]
) -> tuple[For, _Touched]:
    """Each trip comes after the ones before it; the loop may also run no trip at all."""
    entry = before
    while True:
        body, after = _insert(loop.body, entry, divergent)
        if entry | after == entry:
            break
        entry |= after
    if not any(isinstance(node, Barrier | Combine) for node in walk_device(body)):
        return loop, entry
    threads = [v.name for p in loop.clip for v in variables(p.index) if v in divergent]
    if threads:
        raise CodegenError(
            f"loop {loop.var.name} needs a barrier, but its trips depend on {', '.join(threads)}",
            "CUDA code",
        )
    return replace(loop, body=body), entry


def _touched(node: DeviceNode) -> _Touched:
    """Every shared buffer that a node may read or write."""
    match node:
        case Fetch(store):
            return _touched(store)
        case Store():
            written = frozenset(t for t in node.targets if t.scope is Scope.SHARED)
            read = frozenset(_shared_reads(node)) | (written if node.reducer else frozenset())
            return _Touched(read, written)
        case Pipeline():
            return _touched_by((*node.fetch, *node.body))
        case For() | Cooperative():
            return _touched_by(node.body)
        case Combine():
            scratch = frozenset(node.scratch)
            return _Touched(scratch, scratch)
        case RoundPiece(buffer):
            return _Touched(frozenset((buffer,)), frozenset((buffer,)))
        case LoadFragment():
            return _Touched(frozenset(source.buffer for source in node.sources))
        case MultiplyTiles(lhs=lhs, rhs=rhs):
            return _Touched(frozenset((lhs.buffer, rhs.buffer)))
        # moves are between global memory and a thread
        case (
            Declare() | Barrier() | Move() | Multiply()
            | BeginProducts() | EndProducts() | WaitProducts()
        ):  # fmt: skip
            return _Touched()


def _touched_by(nodes: tuple[DeviceNode, ...]) -> _Touched:
    total = _Touched()
    for node in nodes:
        total |= _touched(node)
    return total


def _first_touched(node: DeviceNode) -> _Touched:
    """What a node touches before any barrier of its own."""
    if isinstance(node, Combine):
        return _Touched(written=frozenset(node.scratch))
    return _touched(node)


def _left_by(node: Combine) -> _Touched:
    """What a combination by shared memory leaves touched: it waits between its cells."""
    return _Touched(read=frozenset(node.scratch if node.targets[0].size == 1 else ()))


def _shared_reads(store: Store) -> Iterator[Buffer]:
    return (load.buffer for load in store_loads(store) if load.buffer.scope is Scope.SHARED)
