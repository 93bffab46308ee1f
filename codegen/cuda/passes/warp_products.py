"""The products of a tensor unit that a warp computes become one instruction of all its threads.

    thread g in 0..8, t in 0..8 step 2                  thread g, t
      tensor k in 0..16                                   words a[4] <- A[8*a + g, 8*b + t + p]
        unrolled a in 0..2, p in 0..2             ->      words b[2] <- B[8*b + t + p, g]
          acc[a, p] += A[8*a + g, k] * B[k, t + p]        acc += unit(a, b)

The loops say what each thread gets; which elements of the operands it holds for that is in the
description of the unit.  Where anything else is in the way the loops stay as they are, unrolled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.cuda.device import (
    Binding,
    Declare,
    DeviceFunction,
    DeviceNode,
    For,
    LoadFragment,
    Multiply,
    walk_device,
)
from codegen.cuda.passes.vectorize import Steps, steps_over
from codegen.cuda.tile_nest import tile_nest_of
from codegen.cuda.unit_nest import UnitNest, UnitOperand, is_alike_in_a_warp, unit_nest_of
from codegen.passes.affine import constant, flatten, variables
from codegen.passes.rewrite import substitute_index
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Affine, Buffer, BufferLoad, Index, LoopVar, Scope, Store
from sketch.target.fragments import REGISTER_BYTES, WARP, UnitAxis
from sketch.target.units import TensorUnit

_ROW_BYTES = 16
"""Of a row of the 8 x 8 matrices that a warp loads together."""
_MATRIX_ROWS = 8
_TERM_LANES = 4  # that have the terms of a row
_TURNED_BYTES = 2  # of the elements that are turned while they are loaded
_MOST_SERIAL = 8
Nodes = tuple[DeviceNode, ...]
Values = Mapping[LoopVar, Affine]


def warp_products(function: DeviceFunction, units: Sequence[TensorUnit]) -> DeviceFunction:
    """The function with products on the units of its target."""
    # those of more threads and of more columns first: what these compute, several others could too
    known = sorted(
        (unit for unit in units if unit.fragments is not None),
        key=lambda unit: (unit.lanes, unit.n),
        reverse=True,
    )
    rows = _Rows.of()
    change = _Pass(function, known, rows)
    body = change.nodes(function.body, function.steps)
    if body == function.body:
        return function
    loads = [node for node in walk_device(body) if isinstance(node, LoadFragment)]
    read = {v for load in loads for s in load.sources for i in s.indices for v in _variables(i)}
    terms = (rows.place_of_terms,) if rows.terms in read else ()
    return replace(function, body=body, lanes=rows.bindings if loads else (), terms=terms)


def _variables(index: Index) -> frozenset[LoopVar]:
    return frozenset(variables(index)) if isinstance(index, Affine) else frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The number of a lane in parts: 16 * quarter + 8 * half + row; and ``terms``, the place of its
    own in a row of terms.
    """

    quarter: LoopVar
    half: LoopVar
    row: LoopVar
    terms: LoopVar

    @staticmethod
    def of() -> _Rows:
        return _Rows(
            LoopVar("matrix.next"), LoopVar("matrix"), LoopVar("matrix.row"), LoopVar("terms")
        )

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """How they are decoded from the number of the lane."""
        pairs = Binding(self.quarter, WARP // 16, 1), Binding(self.half, 2, 1)
        return (*pairs, Binding(self.row, _MATRIX_ROWS, 1))

    @property
    def place_of_terms(self) -> Binding:
        """How it is decoded from the number of the lane."""
        return Binding(self.terms, _TERM_LANES, 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    function: DeviceFunction
    units: Sequence[TensorUnit]
    rows: _Rows

    def nodes(self, nodes: Nodes, steps: Steps) -> Nodes:
        new = tuple(made for node in nodes for made in self.node(node, steps))
        same = len(new) == len(nodes) and all(a is b for a, b in zip(new, nodes, strict=True))
        return nodes if same else new

    def node(self, node: DeviceNode, steps: Steps) -> Nodes:
        if not isinstance(node, For):
            return (node,)
        inside = {**steps, node.var: node.stride}
        found = self._product(node, inside) if node.tensor else None
        if found is not None:
            return found
        body = self.nodes(node.body, inside)
        if body is node.body:
            return (node,)
        # a few products in a row overlap their loads
        straight = not node.clip and node.extent <= _MOST_SERIAL and _is_product(node)
        return (replace(node, body=body, unroll=node.unroll or straight),)

    def _product(self, loop: For, steps: Steps) -> Nodes | None:
        chain, store = _straight(loop)
        if store is None or len(self.function.threads) < 2:
            return None
        inner = {**steps, **{each.var: each.stride for each in chain}}
        for unit in self.units:
            if unit.reads_shared:
                tiles = tile_nest_of(unit, self.function.threads, loop, chain, store, inner)
                if tiles is not None:
                    return _under(store, _inside(tiles.copies, (tiles.product,)))
                continue
            use = unit_nest_of(unit, self.function.threads[-2:], loop, chain, store)
            if use is not None and is_alike_in_a_warp(use, self.function.threads):
                return _Writing(use, inner, self.rows).nodes()
        return None


def _is_product(loop: For) -> bool:
    return len(loop.body) == 1 and isinstance(loop.body[0], For) and loop.body[0].tensor


def _straight(loop: For) -> tuple[tuple[For, ...], Store | None]:
    """The unrolled loops inside a loop, and the statement inside of them."""
    chain: list[For] = []
    node: DeviceNode = loop
    while isinstance(node, For) and len(node.body) == 1:
        node = node.body[0]
        if isinstance(node, For):
            if not node.unroll or node.clip or node.stride != 1:
                return (), None
            chain.append(node)
    return tuple(chain), node if isinstance(node, Store) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Writing:
    """The nodes of a use."""

    use: UnitNest
    steps: Steps
    rows: _Rows

    def nodes(self) -> Nodes:
        use = self.use
        words = [self._words(side) for side in (use.lhs, use.rhs)]
        filled = [
            node
            for side, buffer in zip((use.lhs, use.rhs), words, strict=True)
            for node in self._filled(side, buffer)
        ]
        held = {side.registers.var for side in (use.lhs, use.rhs) if side.registers is not None}
        first = {var: constant(0) for var in held}
        indices = tuple(substitute_index(index, first) for index in use.store.indices)
        places = [_place(side, constant(0)) for side in (use.lhs, use.rhs)]
        product = Multiply(
            use.unit, use.store.targets[0], indices, words[0], places[0], words[1], places[1]
        )
        copies = (*use.lhs.copies, *use.rhs.copies)
        nodes = (*map(Declare, words), *filled, *_inside(copies, (product,)))
        return _under(use.store, nodes)

    def _words(self, side: UnitOperand) -> Buffer:
        count = side.fragment.registers
        for loop in side.copies:
            count *= loop.extent
        name = f"{side.load.buffer.name}.words"
        return Buffer(name, "int32", (count,), (1,), (1,), Scope.LOCAL, count)

    def _filled(self, side: UnitOperand, words: Buffer) -> Nodes:
        """The registers of an operand: as whole matrices, or one by one."""
        several = self._matrices(side, words)
        if several is not None:
            return several
        parts = [p for p in side.fragment.parts if p.home == "register"]
        nodes: list[DeviceNode] = []
        for register in range(side.fragment.registers):
            offset = {p.axis: register // p.step % p.extent * p.stride for p in parts}
            gather = self._word(side, words, register, offset)
            nodes.append(gather)
        return _inside(side.copies, tuple(nodes))

    def _word(
        self, side: UnitOperand, words: Buffer, register: int, offset: Mapping[UnitAxis, int]
    ) -> LoadFragment:
        use, pack = self.use, _packed(side)
        lane = use.lanes[0]
        stride = use.lanes[1].stride  # of the lanes that share a row of results, and of terms
        along = Affine(((self.rows.terms, pack),))
        if pack % stride == 0:
            along = Affine(((use.lanes[1].var, pack // stride),))
        sources = []
        for element in range(pack):
            term = Affine(along.terms, offset.get("k", 0) + element)
            row = Affine(((lane.var, 1),), _across(offset))
            sources.append(self._element(side, term, row))
        place = _place(side, constant(register))
        steps = {**self.steps, use.terms.var: 1}
        form, _ = flatten(side.load.buffer, side.load.indices)
        if steps_over(form, use.terms.var, pack, steps) and not side.load.buffer.loose:
            return LoadFragment(words, place, tuple(sources[:1]))
        return LoadFragment(words, place, tuple(sources))

    def _element(self, side: UnitOperand, term: Affine, row: Affine) -> BufferLoad:
        """An element by its place in the unit."""
        values: dict[LoopVar, Affine] = {self.use.terms.var: term}
        for lane in self.use.lanes:
            values[lane.var] = constant(0)
        if side.registers is not None:
            values[side.registers.var] = constant(0)
        indices = [substitute_index(index, values) for index in side.load.indices]
        own = indices[side.dim]
        assert isinstance(own, Affine)
        indices[side.dim] = own + row.scale(side.step)
        return BufferLoad(side.load.buffer, tuple(indices))

    def _matrices(self, side: UnitOperand, words: Buffer) -> Nodes | None:
        """Loads of whole matrices, whose rows each lane says one of; None where such rows are not
        16 aligned bytes in order.
        """
        use, size = self.use, size_of(side.load.dtype)
        units = _ROW_BYTES // size
        steps = {**self.steps, **{b.var: 1 for b in self.rows.bindings}}
        half, row = Affine(((self.rows.half, 1),)), Affine(((self.rows.row, 1),))
        quarter = Affine(((self.rows.quarter, 1),))
        lhs = side is use.lhs
        groups = side.fragment.registers // (2 if lhs else 1)
        # which of the registers a lane's row is for: of other terms, of other rows
        terms = (quarter if lhs else half) if groups > 1 else constant(0)
        across = half if lhs else constant(0)
        for turned in (False, True):
            if turned and size != _TURNED_BYTES:
                continue
            along = terms.scale(units)
            if turned:
                source = self._element(side, along + row, across.scale(_MATRIX_ROWS))
            else:
                source = self._element(side, along, across.scale(_MATRIX_ROWS) + row)
            if self._is_aligned(side, turned, steps):
                gather = LoadFragment(
                    words, _place(side, constant(0)), (source,), side.fragment.registers, turned
                )
                return self._in_pairs(side, gather, quarter)
        return None

    def _in_pairs(self, side: UnitOperand, gather: LoadFragment, quarter: Affine) -> Nodes:
        """Where a unit's part is half of what a warp can load at a time, that of two units."""
        last = side.copies[-1] if side.copies else None
        if gather.matrices != 2 or side is self.use.lhs or last is None or last.extent % 2:
            return _inside(side.copies, (gather,))
        (source,) = gather.sources
        further = {last.var: Affine(((last.var, 1),)) + quarter}
        indices = tuple(substitute_index(index, further) for index in source.indices)
        both = replace(gather, sources=(BufferLoad(source.buffer, indices),), matrices=4)
        every = replace(last, extent=last.extent // 2, stride=2)
        return _inside((*side.copies[:-1], every), (both,))

    def _is_aligned(self, side: UnitOperand, turned: bool, steps: Steps) -> bool:
        """Whether rows of matrices are pieces of 16 bytes."""
        use, units = self.use, _ROW_BYTES // size_of(side.load.dtype)
        form, rest = flatten(side.load.buffer, side.load.indices)
        lane = use.lanes[0 if side is use.lhs else 1].var
        unit = LoopVar("element")
        # a matrix is 8 rows, or 8 columns, by what lies together of the other axis
        walks, still = (lane, use.terms.var) if turned else (use.terms.var, lane)
        terms = [(unit, form.coefficient(walks)), (still, form.coefficient(still))]
        own = {walks, still, *(() if side.registers is None else (side.registers.var,))}
        terms += [(v, c) for v, c in form.terms if v not in own]
        known = {**steps, still: 1}
        return not rest and steps_over(Affine(tuple(terms), form.const), unit, units, known)


def _under(store: Store, nodes: Nodes) -> Nodes:
    """Nodes that happen where a statement does."""
    if not store.predicates:
        return nodes
    return (For(LoopVar("once"), 1, 1, True, store.predicates, nodes),)


def _across(offset: Mapping[UnitAxis, int]) -> int:
    """Along the rows or the columns."""
    return sum(value for axis, value in offset.items() if axis != "k")


def _packed(side: UnitOperand) -> int:
    return REGISTER_BYTES // size_of(side.load.dtype)


def _place(side: UnitOperand, register: Affine) -> Affine:
    """Of a register of an operand in those of all units."""
    place, step = register, side.fragment.registers
    for loop in reversed(side.copies):
        place = place + Affine(((loop.var, step),))
        step *= loop.extent
    return place


def _inside(loops: Sequence[For], nodes: Nodes) -> Nodes:
    for loop in reversed(loops):
        nodes = (replace(loop, body=nodes),)
    return nodes
