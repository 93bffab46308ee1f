"""Virtual threads become interleaved copies inside one thread.

    vthread v in 0..64 step 32                  thread t in 0..32
      thread t in 0..32                           local acc: float32[2, 4]
        local acc: float32[4]                     unrolled v in 0..2: acc[v, ...] = 0
          acc[...] = 0                    ->      serial k in 0..K
          serial k in 0..K                          shared tile, filled once
            shared tile, filled once                unrolled v in 0..2: acc[v, ...] += ...
            acc[...] += ...                       unrolled v in 0..2: C[32*v + t, ...] = acc[v, ...]
          C[v + t, ...] = acc[...]

Private buffers get a dimension for each virtual thread around them.  Loops over the virtual threads
go around the largest parts without shared memory and serial loops, and only where a part depends
on them; so a shared tile stays one tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from codegen.errors import CodegenError
from codegen.passes.affine import variables
from codegen.passes.rewrite import Nodes, map_expr, substitute
from sketch.lang.expr import Expr
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Branch,
    Buffer,
    BufferLoad,
    Index,
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
from sketch.nest.printer import print_affine
from sketch.nest.walk import accesses, free_values, stores, walk


def inject_vthread(nest: LoopNest) -> LoopNest:
    """The nest without loops of kind VTHREAD.

    Raises CodegenError where virtual threads would have to diverge around shared memory.
    """
    return replace(nest, roots=_Injector((), {}).nodes(nest.roots))


@dataclass(frozen=True, slots=True)
class _Injector:
    """The virtual threads around a point, outermost first, and the buffers they multiplied."""

    threads: tuple[Loop, ...]
    grown: Mapping[Buffer, _Grown]

    def nodes(self, nodes: Nodes) -> Nodes:
        return reused([made for node in nodes for made in self.node(node)], nodes)

    def node(self, node: Node) -> Nodes:
        match node:
            case Loop(kind=LoopKind.VTHREAD):
                return self._enter(node)
            case Allocate(buffer) if buffer.scope is Scope.LOCAL and self._depends(node):
                return self._grow(node)
            case Allocate():
                return _with_body(node, self.nodes(node.body))
            case Branch(index):
                raise CodegenError(
                    f"branch over {print_affine(index)} inside virtual threads", "CUDA code"
                )
            case Store():
                return self._around(node)
            case Loop():
                return self._loop(node)

    def _depends(self, node: Node) -> bool:
        """Whether virtual threads compute different things there: not where a tile is filled."""
        around = {loop.var for loop in self.threads}
        touched = (buffer for store, _ in stores((node,)) for buffer, _ in accesses(store))
        return not around.isdisjoint(_variables(node)) or any(b in self.grown for b in touched)

    def _enter(self, loop: Loop) -> Nodes:
        """Take a loop of virtual threads along, counting its trips by ones."""
        if loop.clip:
            raise CodegenError(f"virtual threads {loop.var.name} are clipped", "CUDA code")
        body, var = loop.body, loop.var
        if loop.stride != 1:
            var = LoopVar(loop.var.name)
            body = substitute(body, {loop.var: Affine(((var, int(loop.stride)),))})
        copies = replace(loop, var=var, stride=1, kind=LoopKind.UNROLLED, body=())
        return replace(self, threads=(*self.threads, copies)).nodes(body)

    def _grow(self, node: Allocate) -> Nodes:
        """A private buffer exists once for each virtual thread."""
        grown = _Grown.of(node.buffer, self.threads)
        inner = replace(self, grown={**self.grown, node.buffer: grown})
        return (Allocate(grown.buffer, inner.nodes(node.body)),)

    def _loop(self, loop: Loop) -> Nodes:
        diverges = _uses(loop.clip, {t.var for t in self.threads})
        if not diverges and (loop.kind is not LoopKind.UNROLLED or _has_shared(loop)):
            return _with_body(loop, self.nodes(loop.body))
        if _has_shared(loop):
            raise CodegenError(
                f"loop {loop.var.name} around shared memory has other trips in other virtual "
                "threads",
                "CUDA code",
            )
        return self._around(loop)

    def _around(self, node: Node) -> Nodes:
        """Put loops over the virtual threads that ``node`` depends on around it."""
        (node,) = _rename((node,), self.grown)
        used = set(_variables(node))
        for loop in reversed(self.threads):
            if loop.var in used:
                node = replace(loop, body=(node,))
        return (node,)


def _with_body(node: Loop | Allocate, body: Nodes) -> Nodes:
    return (node,) if body is node.body else (replace(node, body=body),)


def _has_shared(loop: Loop) -> bool:
    return any(
        isinstance(node, Allocate) and node.buffer.scope is Scope.SHARED for node in walk((loop,))
    )


def _uses(clip: tuple[Predicate, ...], threads: set[LoopVar]) -> bool:
    return any(variables(p.index) & threads for p in clip)


@dataclass(frozen=True, slots=True, eq=False)
class _Grown:
    """A private buffer with leading dimensions for virtual threads."""

    buffer: Buffer
    prefix: tuple[Index, ...]

    @staticmethod
    def of(buffer: Buffer, threads: tuple[Loop, ...]) -> _Grown:
        shape, strides, size = list(buffer.shape), list(buffer.strides), int(buffer.size)
        for loop in reversed(threads):
            shape.insert(0, int(loop.extent))
            strides.insert(0, size)
            size *= int(loop.extent)
        grown = replace(
            buffer,
            shape=tuple(shape),
            strides=tuple(strides),
            steps=((1,) * len(threads) + buffer.steps),
            size=size,
        )
        return _Grown(grown, tuple(Affine(((loop.var, 1),)) for loop in threads))


def _variables(node: Node) -> Iterator[LoopVar]:
    """Variables that a part of a nest uses in indices, values, predicates and clips."""
    for loop in walk((node,)):
        if isinstance(loop, Loop):
            yield from (var for p in loop.clip for var in variables(p.index))
    for store, _ in stores((node,)):
        yield from (var for p in store.predicates for var in variables(p.index))
        for value in store.values:
            yield from free_values(value)
        for _, indices in accesses(store):
            for index in indices:
                if isinstance(index, Affine):
                    yield from variables(index)
                else:
                    yield from free_values(index.expr)


def _rename(nodes: Nodes, grown: Mapping[Buffer, _Grown]) -> Nodes:
    """Replace buffers by their grown versions."""
    if not grown:
        return nodes
    new: list[Node] = []
    for node in nodes:
        match node:
            case Store():
                new.append(_rename_store(node, grown))
            case Loop() | Allocate():
                new.append(replace(node, body=_rename(node.body, grown)))
            case Branch(index):
                raise CodegenError(
                    f"branch over {print_affine(index)} inside virtual threads", "CUDA code"
                )
    return tuple(new)


def _rename_store(store: Store, grown: Mapping[Buffer, _Grown]) -> Store:
    def leaf(node: Expr) -> Expr:
        if not isinstance(node, BufferLoad):
            return node
        indices = tuple(rename_index(index) for index in node.indices)
        known = grown.get(node.buffer)
        if known is None:
            return BufferLoad(node.buffer, indices)
        return BufferLoad(known.buffer, (*known.prefix, *indices))

    def rename_index(index: Index) -> Index:
        if isinstance(index, Affine):
            return index
        return Quasi(map_expr(index.expr, leaf), index.low, index.high)

    first = grown.get(store.targets[0])
    prefix = () if first is None else first.prefix
    return replace(
        store,
        targets=tuple(grown[t].buffer if t in grown else t for t in store.targets),
        indices=(*prefix, *(rename_index(index) for index in store.indices)),
        values=tuple(map_expr(value, leaf) for value in store.values),
    )
