"""Partial sums: long sums of floats are accumulated in blocks, and blocks of blocks.

    for k in 0..K:                       for kb in 0..K step B:
      acc += x[k]                          part = 0
                                 ->        for ki in 0..B:
                                             part += x[kb + ki]
                                           acc += part

A chain of n additions of like numbers may lose n roundings; blocks of b, blocks of these and so on
lose about b for each level.  All reducers that add floats are treated so, at every chain of terms
that ends in one accumulator, whatever made it: one loop or several, lanes, chunks of threads.

A tile register adds sums of a block of products: such a chain is short already.

Of a sum of sums, such as those of lanes or threads, every addition may lose a last digit of the
result, so it has the shortest blocks.

A sum whose terms are elements of its own waits for memory, so its blocks are short.  Accumulators
that share elements (register tiles of matrix products) wait for arithmetic, and adding a tile to
another costs as much as a term: their blocks are so long that it hardly counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final, NamedTuple

from codegen.passes.affine import variables
from codegen.passes.rewrite import Nodes, instructions, is_dynamic, map_body, substitute
from codegen.passes.sums import combined_sums, float_sums
from codegen.passes.tiles import (
    Cells,
    allocated,
    fill,
    is_register_tile,
    register_limit,
    tile_of,
)
from sketch.lang.affine import UNBOUNDED
from sketch.lang.reducers import adds_floats
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
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
from sketch.nest.walk import index_variables, store_loads, stores, walk
from sketch.target.target import Target

# Terms of a chain where elements are used once: the error is that of NumPy's sums, twice at most.
_TERMS: Final = 16
# Where accumulators share all elements: a tile more is added per hundred terms, and few tiles are
# kept at a time.
_SHARED_TERMS: Final = 128
_SHARED_BLOCKS: Final = 16
# Where a nest asks for short sums: half of the terms, 0.7 of the error, up to 4 % of the time.
SHORT_TERMS: Final = 64
# Where later sums and differences of these tiles cancel: errors are several times as large there.
_COMBINED_TERMS: Final = 32
# Blocks of a block of blocks, and sums in a sum of sums.
_BLOCKS: Final = 4
# A block becomes straight-line code of so many trips where its body has few instructions.
_UNROLLED: Final = 4
_SMALL_BODY: Final = 32
# A loop is not split for fewer trips; what is inside of it is a block.
_WORTH_SPLITTING: Final = 4


def partial_sums(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with long sums accumulated in blocks."""
    sums = float_sums(nest)
    shared = SHORT_TERMS if nest.short_sums else _SHARED_TERMS
    around = _Pass(target, sums, combined_sums(nest, sums), shared)
    return replace(nest, roots=around.nodes(nest.roots, frozenset()))


@dataclass(frozen=True, slots=True)
class _Pass:
    """``sums``: buffers that hold sums of floats; ``combined``: those whose elements are added to
    or subtracted from each other; ``shared``: terms of a block where accumulators share elements.
    """

    target: Target
    sums: frozenset[Buffer]
    combined: frozenset[Buffer]
    shared: int

    def nodes(self, nodes: Nodes, tiles: frozenset[Buffer]) -> Nodes:
        return reused([self.node(node, tiles) for node in nodes], nodes)

    def node(self, node: Node, tiles: frozenset[Buffer]) -> Node:
        """``tiles``: the register tiles around the node."""
        if isinstance(node, Allocate) and is_register_tile(node, self.target):
            tiles |= {node.buffer}
        if isinstance(node, Loop) and node.axis_kind == "reduce":
            chain = _chain(node)
            plan = {} if chain is None else _plan(chain, self.blocks(chain))
            if chain is not None and plan:
                return _Blocked(self, chain, plan, tiles, _parts(plan)).build()
        return map_body(node, lambda body: self.nodes(body, tiles))

    def blocks(self, chain: _Chain) -> _Blocks:
        """How the sum is divided."""
        value = chain.store.values[0]
        alone = len(chain.store.values) == 1
        if alone and isinstance(value, BufferLoad) and value.buffer in self.sums:
            return _Blocks(_BLOCKS, _BLOCKS)
        if not _shares_elements(chain):
            return _Blocks(_TERMS, _BLOCKS)
        combined = chain.store.targets[0] in self.combined
        return _Blocks(_COMBINED_TERMS if combined else self.shared, _SHARED_BLOCKS)


@dataclass(frozen=True, slots=True)
class _Chain:
    """A sum: its statement, the outermost of its reduce loops, and all loops from there on."""

    store: Store
    outermost: Loop
    loops: tuple[Loop, ...]

    def inside(self, loop: Loop) -> tuple[Loop, ...]:
        """The loops inside ``loop``."""
        position = [inner is loop for inner in self.loops].index(True)
        return self.loops[position + 1 :]

    def indexing(self, loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        """Those of ``loops`` that select the accumulator."""
        used = {var for index in self.store.indices for var in index_variables(index)}
        return tuple(loop for loop in loops if loop.var in used)


def _chain(loop: Loop) -> _Chain | None:
    """The one sum whose outermost reduce loop is ``loop``, if nothing else touches its cells."""
    own = {node.buffer for node in walk(loop.body) if isinstance(node, Allocate)}
    found = [
        (store, around)
        for store, around in stores((loop,))
        if store.reducer is not None and own.isdisjoint(store.targets)
    ]
    if len(found) != 1:
        return None
    ((store, around),) = found
    assert store.reducer is not None
    if not adds_floats(store.reducer) or any(isinstance(i, Quasi) for i in store.indices):
        return None
    if any(target.scope is Scope.TILE for target in store.targets):
        return None
    touched = sum(target in store.targets for target in _touched(loop))
    return _Chain(store, loop, around) if touched == len(store.targets) else None


def _touched(loop: Loop) -> Iterator[Buffer]:
    for store, _ in stores((loop,)):
        yield from store.targets
        yield from (load.buffer for load in store_loads(store))


def _shares_elements(chain: _Chain) -> bool:
    """Whether accumulators share all elements that they add, as those of a matrix product do."""
    selecting = {var for index in chain.store.indices for var in index_variables(index)}
    reduced = {loop.var for loop in chain.loops if loop.axis_kind == "reduce"}
    shared: list[bool] = []
    for load in store_loads(chain.store):
        used = {var for index in load.indices for var in index_variables(index)}
        if used & reduced:
            shared.append(not selecting <= used)
    return bool(shared) and all(shared)


class _Blocks(NamedTuple):
    """Terms in a block of no blocks, and blocks in one of blocks: added one after another."""

    terms: int
    blocks: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """One of the nested loops that a loop becomes.

    ``partial``: each of its trips is summed in cells of its own.  ``unrolled``: it is
    straight-line code.
    """

    trips: int
    partial: bool
    unrolled: bool = False


# The pieces of loops, outermost first; a loop that is not in the plan stays as it is.
_Plan = Mapping[LoopVar, tuple[_Piece, ...]]


def _plan(chain: _Chain, sizes: _Blocks) -> _Plan:
    """Where partial sums begin, from the innermost loop outwards."""
    left = prod(int(loop.extent) for loop in chain.loops if loop.axis_kind == "reduce")
    if left <= sizes.terms:
        return {}
    plan: dict[LoopVar, tuple[_Piece, ...]] = {}
    terms, limit = 1, sizes.terms
    for loop in reversed(chain.loops):
        trips = int(loop.extent)
        if loop.axis_kind == "spatial":
            if is_dynamic(loop) and terms > 1 and terms * left > limit:
                # what is inside stays in registers
                plan[loop.var] = (_Piece(trips, partial=True),)
                terms, limit = 1, sizes.terms
            continue
        left //= trips
        if loop.kind is LoopKind.VECTORIZED:  # lanes are added by halves
            continue
        if terms * trips <= limit or not _may_split(chain, loop):
            terms *= trips
            continue
        pieces = _pieces(trips, limit // terms, sizes.blocks)
        # Trips of a loop that a mask ends are left out one by one.
        plan[loop.var] = pieces if chain.store.needs else _unrolled(pieces, loop)
        terms, limit = pieces[0].trips, sizes.blocks
    return plan


def _parts(plan: _Plan) -> dict[LoopVar, tuple[LoopVar, ...]]:
    """The variables of the pieces of each loop that is divided; what it counts is their sum."""
    return {
        var: tuple(LoopVar(f"{var.name}.p{number}") for number in range(len(pieces)))
        for var, pieces in plan.items()
        if len(pieces) > 1
    }


def _may_split(chain: _Chain, loop: Loop) -> bool:
    """Cells inside which serial loops select an accumulator are a copy of a private buffer."""
    selecting = any(is_dynamic(inner) for inner in chain.indexing(chain.inside(loop)))
    return not selecting or all(t.scope is Scope.LOCAL for t in chain.store.targets)


def _pieces(trips: int, most: int, blocks: int) -> tuple[_Piece, ...]:
    """A loop as blocks of at most ``most`` trips, ``blocks`` of these as one and so on."""
    inner: list[_Piece] = []
    if most >= _WORTH_SPLITTING:
        inner.append(_Piece(_block(trips, most), partial=False))
        trips = -(-trips // inner[0].trips)
    while trips > blocks:
        inner.append(_Piece(_block(trips, blocks), partial=True))
        trips = -(-trips // inner[-1].trips)
    return (_Piece(trips, partial=True), *reversed(inner))


def _unrolled(pieces: tuple[_Piece, ...], loop: Loop) -> tuple[_Piece, ...]:
    """The pieces of ``loop``, a few trips of the innermost one as straight-line code."""
    *outer, last = pieces
    simple = not any(isinstance(node, Loop) and is_dynamic(node) for node in walk(loop.body))
    exact = prod(piece.trips for piece in pieces) == int(loop.extent)
    if last.partial or last.trips % _UNROLLED or not exact or not simple:
        return pieces
    if loop.kind is not LoopKind.SERIAL or loop.clip or instructions(loop.body) > _SMALL_BODY:
        return pieces
    rest = _Piece(last.trips // _UNROLLED, partial=False)
    return (*outer, rest, _Piece(_UNROLLED, partial=False, unrolled=True))


def _block(trips: int, most: int) -> int:
    """Trips of a block: a divisor if there is a large one, else so that blocks are alike."""
    for size in range(most, most // 2, -1):
        if trips % size == 0:
            return size
    return -(-trips // -(-trips // most))


@dataclass(frozen=True, slots=True)
class _Blocked:
    """Rebuilds the nest of a sum according to a plan."""

    around: _Pass
    chain: _Chain
    plan: _Plan
    tiles: frozenset[Buffer]
    parts: Mapping[LoopVar, tuple[LoopVar, ...]]

    def build(self) -> Node:
        """The sum, in a register tile of its own where it can be in one."""
        # What combines parts of outer loops may say where its terms of inner ones are needed.
        (node,) = substitute((self._whole(),), {var: _sum(p) for var, p in self.parts.items()})
        return node

    def _whole(self) -> Node:
        store, loops = self.chain.store, self.chain.loops
        memory = Cells(store.targets, store.indices)
        indexing = self.chain.indexing(loops)
        cells = prod(int(loop.extent) for loop in indexing if loop.kind is LoopKind.UNROLLED)
        fits = cells <= register_limit(self.around.target)
        if store.targets[0] in self.tiles or any(map(is_dynamic, indexing)) or not fits:
            return self._node(self.chain.outermost, memory)
        return self._partial(memory, loops, lambda part: (self._node(self.chain.outermost, part),))

    def _node(self, node: Node, cells: Cells) -> Node:
        if node is self.chain.store:
            return replace(self.chain.store, targets=cells.buffers, indices=cells.indices)
        if all(store is not self.chain.store for store, _ in stores((node,))):
            return self.around.node(node, self.tiles)
        if isinstance(node, Loop) and node.var in self.plan:
            return self._loop(node, cells)
        return map_body(node, lambda body: self._nodes(body, cells))

    def _nodes(self, nodes: Nodes, cells: Cells) -> Nodes:
        return tuple(self._node(node, cells) for node in nodes)

    def _loop(self, loop: Loop, cells: Cells) -> Node:
        """The pieces of a loop, one inside the other."""
        pieces = self.plan[loop.var]
        if len(pieces) == 1:
            return replace(loop, body=self._body(loop, pieces[0], cells))
        parts, clip = self.parts[loop.var], loop.clip
        if prod(piece.trips for piece in pieces) != int(loop.extent):
            end = int(loop.extent) * int(loop.stride)
            clip = (*clip, Predicate(_sum(parts), -UNBOUNDED, end))

        def build(number: int, cells: Cells) -> Node:
            inner = pieces[number + 1 :]
            stride = int(loop.stride) * prod(piece.trips for piece in inner)
            piece, var = pieces[number], parts[number]
            kind = LoopKind.UNROLLED if piece.unrolled else loop.kind
            made = replace(loop, var=var, extent=piece.trips, stride=stride, clip=(), kind=kind)
            if not inner:
                return replace(made, clip=clip, body=self._body(loop, pieces[number], cells))
            if not pieces[number].partial:
                return replace(made, body=(build(number + 1, cells),))
            around = (loop, *self.chain.inside(loop))
            block = self._partial(cells, around, lambda part: (build(number + 1, part),))
            return replace(made, body=(block,))

        return build(0, cells)

    def _body(self, loop: Loop, piece: _Piece, cells: Cells) -> Nodes:
        """The body of a loop's innermost piece."""
        if not piece.partial:
            return self._nodes(loop.body, cells)
        inside = self.chain.inside(loop)
        return (self._partial(cells, inside, lambda part: self._nodes(loop.body, part)),)

    def _partial(
        self, cells: Cells, inside: tuple[Loop, ...], body: Callable[[Cells], Nodes]
    ) -> Node:
        """``body`` on cells of its own, which are then combined with ``cells``.

        ``inside``: the loops of the sum inside ``body``.
        """
        store = self.chain.store
        reducer = store.reducer
        assert reducer is not None
        loops = self.chain.indexing(inside)
        whole = any(map(is_dynamic, loops))  # a copy of all of the buffers
        if whole:
            copies = tuple(replace(b, name=f"{b.name}.part") for b in cells.buffers)
            part = Cells(copies, store.indices)
        else:
            part = tile_of(cells.buffers, loops, "part")
        moving = {loop.var for loop in inside}
        hidden = moving - {loop.var for loop in loops}
        guards = tuple(p for p in store.predicates if not variables(p.index) & hidden)
        outer = tuple(p for p in guards if not variables(p.index) & moving)
        # Loops of a nest may go beyond the end of what is no tile of its own, and so of a copy.
        beyond = whole and any(t.scope is not Scope.LOCAL for t in store.targets)
        needs = tuple(need for need in store.needs if need.own)  # a sum of zeros is one
        first = guards if beyond else outer
        nodes = (
            *fill(part, reducer.identity, loops, first, store.stage, "first"),
            *body(part),
            *fill(cells, part.loads(), loops, guards, store.stage, "sum", reducer, needs),
        )
        return allocated(part, nodes)


def _sum(parts: tuple[LoopVar, ...]) -> Affine:
    return Affine(tuple((var, 1) for var in parts))
