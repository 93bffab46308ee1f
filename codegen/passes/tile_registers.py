"""Tile registers: what a tensor unit with such registers adds to stays there for a whole sum.

    unrolled i, tensor m, vectorized n:         unrolled i, tensor m, vectorized n: tile = 0
      acc = 0                                   serial k:
    serial k:                           ->        unrolled i, tensor m, g, p, vectorized n:
      unrolled i, tensor m, g, p, n:                tile += A * B
        acc += A * B                            unrolled i, tensor m, vectorized n: acc = tile

``acc`` is memory of the thread, which what reads the sums finds them in.  Where the sum ends within
a block, the last one has a copy of its own.  Loops that no unit of the target computes become plain
ones around those of a unit on vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from codegen.passes.affine import constant, flatten, interval, loop_range
from codegen.passes.promote import Update, single_update
from codegen.passes.rewrite import Nodes, is_dynamic, map_body, substitute, without_loops
from codegen.passes.tile_blocks import TileBlock, tile_block
from codegen.passes.tiles import Cells, allocated, fill, retarget, tile_of
from sketch.lang.expr import Const
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.walk import stores, walk
from sketch.target.target import Target
from sketch.target.units import MOST_TILE_RESULTS, TensorUnit, units_of


def tile_registers(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with results of tensor units in tile registers, where the target has them."""
    units = tuple(unit for unit in units_of(target) if unit.tiles)
    return replace(nest, roots=_Pass(units).nodes(nest.roots, ()))


@dataclass(frozen=True, slots=True)
class _Pass:
    units: tuple[TensorUnit, ...]

    def nodes(self, nodes: Nodes, around: tuple[Loop, ...]) -> Nodes:
        new: list[Node] = []
        for node in nodes:
            block = self._kept(node, around)
            if block is None:
                new.append(self._inside(node, around))
                continue
            zero = bool(new) and fills_zero(new[-1], block.update)
            if zero:
                new.pop()
            new.append(block.tiled(zero))
        return reused(new, nodes)

    def _inside(self, node: Node, around: tuple[Loop, ...]) -> Node:
        if not isinstance(node, Loop):
            return map_body(node, lambda body: self.nodes(body, around))
        if _has_tile_loops(node) and not any(
            tile_block(inner, self.units) for inner in walk((node,))
        ):
            return _plain(node)
        return map_body(node, lambda body: self.nodes(body, (*around, node)))

    def _kept(self, node: Node, around: tuple[Loop, ...]) -> _Kept | None:
        """How all that ``node`` sums stays in registers."""
        if not isinstance(node, Loop) or node.kind in (LoopKind.PARALLEL, LoopKind.TENSOR):
            block = tile_block(node, self.units)
        else:
            found = (tile_block(inner, self.units) for inner in walk((node,)))
            block = next((block for block in found if block is not None), None)
        if block is None or not isinstance(node, Loop) or node.kind is LoopKind.PARALLEL:
            return None
        update = single_update(node)
        target = block.store.targets[0]
        if update is None or target.scope is not Scope.LOCAL:
            return None
        cells = prod(int(x.extent) for x in update.loops if x.kind is LoopKind.UNROLLED)
        return _Kept(node, block, update, around) if cells <= MOST_TILE_RESULTS else None


@dataclass(frozen=True, slots=True)
class _Kept:
    """A part of a nest that does nothing but add to blocks, and the loops around it."""

    node: Loop
    block: TileBlock
    update: Update
    around: tuple[Loop, ...]

    def tiled(self, zero: bool) -> Node:
        """The part with a copy of what it adds to; ``zero``: that is 0 before."""
        store, loops = self.update.store, self.update.loops
        memory = Cells(store.targets, store.indices)
        cells = _in_registers(tile_of(store.targets, loops, "tile"))
        before = (Const(0, store.targets[0].dtype),) if zero else memory.loads()
        body = (
            *fill(cells, before, loops, (), store.stage, "in"),
            *(retarget(part, cells) for part in self._pieces()),
            *fill(memory, cells.loads(), loops, (), store.stage, "out"),
        )
        return allocated(cells, body)

    def _pieces(self) -> Nodes:
        """The part with whole blocks, and what is left of the sum."""
        end = self._end()
        if end is None:
            return (self.node,)
        predicate, base, count = end
        depth = self.block.depth
        full = count // depth * depth
        within = Predicate(base, 0, full)
        whole = _replaced(self.node, predicate, (within,) if base.terms else ())
        if full == count:
            return (whole,)
        inside = {x.var for x in walk((self.node,)) if isinstance(x, Loop)}
        last = self._last(base, full)
        here = {var: form for var, form in last.items() if var in inside}
        outside = tuple(
            Predicate(Affine(((var, 1),)), form.const, form.const + 1)
            for var, form in last.items()
            if var not in inside
        )
        rest = replace(predicate, low=full, high=count + predicate.index.const)
        tail = _replaced(self.node, predicate, (rest, *outside))
        return (*((whole,) if full else ()), *substitute(without_loops((tail,), here), here))

    def _end(self) -> tuple[Predicate, Affine, int] | None:
        """The predicate on the terms, where blocks start, and the terms that there are."""
        block, own = self.block, self.block.elements.var
        terms = {own, block.groups.var}
        found = [p for p in block.store.predicates if p.index.coefficient(own)]
        loops = {loop.var: loop for loop in (*self.around, *self._path())}
        for predicate in found:
            index = predicate.index
            base = Affine(tuple(t for t in index.terms if t[0] not in terms))
            ones = all(coefficient == 1 for _, coefficient in index.terms)
            low, _ = interval(index, {var: loop_range(loop) for var, loop in loops.items()})
            if len(found) == 1 and ones and low >= predicate.low and self._starts(base, loops):
                return predicate, base, predicate.high - index.const
        return None

    def _starts(self, base: Affine, loops: dict[LoopVar, Loop]) -> bool:
        """Whether only whole blocks are before any."""
        return all(
            var in loops and int(loops[var].stride) % self.block.depth == 0 for var, _ in base.terms
        )

    def _path(self) -> tuple[Loop, ...]:
        (found,) = stores((self.node,))
        return found[1]

    def _last(self, base: Affine, full: int) -> dict[LoopVar, Affine]:
        """The values of the loops at the last block."""
        loops = {loop.var: loop for loop in (*self.around, *self._path())}
        left, values = full, dict[LoopVar, Affine]()
        for var, _ in sorted(base.terms, key=lambda term: -int(loops[term[0]].stride)):
            stride, extent = int(loops[var].stride), int(loops[var].extent)
            trip = min(left // stride, extent - 1)
            values[var] = constant(trip * stride)
            left -= trip * stride
        return values


def _in_registers(cells: Cells) -> Cells:
    buffers = tuple(replace(buffer, scope=Scope.TILE) for buffer in cells.buffers)
    return Cells(buffers, cells.indices)


def fills_zero(node: Node, update: Update) -> bool:
    """Whether a node does nothing but set all that is added to to 0."""
    found = list(stores((node,)))
    if len(found) != 1:
        return False
    store, loops = found[0]
    value = store.values[0]
    if store.targets != update.store.targets or store.reducer is not None:
        return False
    zero = isinstance(value, Const) and value.value == 0 and not any(map(is_dynamic, loops))
    buffer = store.targets[0]
    mine = _walked(buffer, store, loops)
    return zero and mine == _walked(buffer, update.store, update.loops)


def _walked(buffer: Buffer, store: Store, loops: tuple[Loop, ...]) -> object:
    """Which elements of a buffer a statement goes through, in any order."""
    form, quasi = flatten(buffer, store.indices)
    known = {loop.var: loop for loop in loops}
    steps = sorted(
        (c * int(known[v].stride), int(known[v].extent)) for v, c in form.terms if v in known
    )
    free = frozenset(term for term in form.terms if term[0] not in known)
    return steps, free, form.const, bool(quasi)


def _replaced(node: Node, old: Predicate, new: tuple[Predicate, ...]) -> Node:
    """The node with other predicates in place of one."""
    if isinstance(node, Store):
        kept = tuple(p for p in node.predicates if p is not old)
        return replace(node, predicates=(*kept, *new))
    return map_body(node, lambda body: tuple(_replaced(part, old, new) for part in body))


def _has_tile_loops(node: Loop) -> bool:
    """Whether tensor loops follow one another along one axis: those of a unit with registers."""
    inside = [x for x in walk((node,)) if isinstance(x, Loop) and x.kind is LoopKind.TENSOR]
    axes = [x.var.axis for x in inside if x.axis_kind == "reduce"]
    return len(axes) != len(set(axes))


def _plain(node: Node) -> Node:
    """Rows and groups one after another; what a lane adds stays a matter of units on vectors."""
    if isinstance(node, Loop) and node.kind is LoopKind.TENSOR:
        groups = any(isinstance(x, Loop) and x.kind is LoopKind.TENSOR for x in walk(node.body))
        node = replace(node, kind=LoopKind.SERIAL) if groups else node
    return map_body(node, lambda body: tuple(_plain(part) for part in body))
