"""Tensorize: the loops of a tensor unit become one operator, which has an instruction.

    for k in 0..40 step 4:
      tensor p in 0..4:
        vectorized j in 0..16:
          acc[j] += i32(A[k + p]) * i32(B[k, j, p])
    ->
    for k in 0..40 step 4:
      vectorized j in 0..16:
        acc[j] += unit(group(A[k]), group(B[k, j, 0]))

``group`` is an element and those after it, as many as a unit takes, as one 32-bit lane.  Where the
terms end within a group, what is left of ``A`` is read element by element; packed ``B`` is padded.
Loops that no unit of the target computes are unrolled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from codegen.passes.affine import constant, flatten, interval, loop_range, variables
from codegen.passes.rewrite import (
    Nodes,
    Values,
    is_dynamic,
    map_body,
    substitute,
    substitute_expr,
    with_body,
    without_loops,
)
from codegen.passes.tile_blocks import is_tile_loop
from sketch.lang.dtypes import is_unsigned, size_of
from sketch.lang.expr import Binary, Cast, Const, Expr, Unary, binary
from sketch.lang.operator_names import BITS, GROUP
from sketch.lang.reducers import is_sum
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Store,
)
from sketch.nest.walk import index_variables, walk
from sketch.target.target import Target
from sketch.target.units import TensorUnit, units_of


def tensorize(nest: LoopNest, target: Target) -> LoopNest:
    """The nest without loops of tensor units."""
    return replace(nest, roots=_Pass(units_of(target)).nodes(nest.roots, ()))


@dataclass(frozen=True, slots=True)
class _Pass:
    units: tuple[TensorUnit, ...]

    def nodes(self, nodes: Nodes, around: tuple[Loop, ...]) -> Nodes:
        return reused([part for node in nodes for part in self.node(node, around)], nodes)

    def node(self, node: Node, around: tuple[Loop, ...]) -> Nodes:
        if not isinstance(node, Loop):
            return (map_body(node, lambda body: self.nodes(body, around)),)
        if is_tile_loop(node):
            return (node,)
        block = _block_in(node, around)
        if block is not None:
            use = next((u for u in map(block.use, self.units) if u is not None), None)
            return (_unrolled(node),) if use is None else use.pieces(node)
        if node.kind is LoopKind.TENSOR:
            return (_unrolled(node),)
        return (map_body(node, lambda body: self.nodes(body, (*around, node))),)


@dataclass(frozen=True, slots=True)
class _Block:
    """The loops of a unit: its terms, its lanes, the statement, and all loops around the terms."""

    terms: Loop
    lanes: Loop
    store: Store
    around: tuple[Loop, ...]

    def use(self, unit: TensorUnit) -> _Use | None:
        """How a unit computes the block, if it does."""
        shape = prod(int(x.extent) for x in self.around if x.kind is LoopKind.TENSOR)
        if (shape, int(self.lanes.extent), int(self.terms.extent)) != (unit.m, unit.n, unit.k):
            return None
        if self.lanes.kind is not LoopKind.VECTORIZED:
            return None
        operands = self._operands(unit)
        end = self._end()
        return None if operands is None or end is None else _Use(self, unit, *operands, end)

    def _operands(self, unit: TensorUnit) -> tuple[BufferLoad, BufferLoad] | None:
        store, terms, lanes = self.store, self.terms.var, self.lanes.var
        product = store.values[0]
        if store.reducer is None or not is_sum(store.reducer) or product.dtype != unit.acc:
            return None
        if not isinstance(product, Binary) or product.op != "mul":
            return None
        for first, second in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
            lhs, rhs = _loaded(first), _loaded(second)
            if lhs is None or rhs is None or (lhs.dtype, rhs.dtype) != (unit.lhs, unit.rhs):
                continue
            if _steps(lhs, terms, lanes) == (1, 0) and _steps(rhs, terms, lanes) == (1, unit.k):
                return (lhs, rhs) if _is_grouped(rhs, terms, unit.k) else None
        return None

    def _end(self) -> _End | None:
        """Where the terms end; None where predicates on them are of another form."""
        own = self.terms.var
        found = [p for p in self.store.predicates if own in variables(p.index)]
        if not found:
            return _End(None, Affine(()), 0)
        (predicate, *others), loops = found, {loop.var: loop for loop in self.around}
        inner = {loop.var: loop for loop in (self.terms, self.lanes)}
        base = Affine(tuple(t for t in predicate.index.terms if t[0] is not own))
        size = int(self.terms.extent)
        whole = all(v in loops and c * int(loops[v].stride) % size == 0 for v, c in base.terms)
        if others or predicate.index.coefficient(own) != 1 or not whole:
            return None
        low, _ = interval(predicate.index, {v: loop_range(x) for v, x in (loops | inner).items()})
        if low < predicate.low:
            return None
        return _End(predicate, base, predicate.high - predicate.index.const)


@dataclass(frozen=True, slots=True)
class _End:
    """The terms whose place ``base + term`` is below ``count``; without a predicate, all are."""

    predicate: Predicate | None
    base: Affine
    count: int


@dataclass(frozen=True, slots=True)
class _Use:
    """A block that a unit computes."""

    block: _Block
    unit: TensorUnit
    lhs: BufferLoad
    rhs: BufferLoad
    end: _End

    def pieces(self, node: Loop) -> Nodes:
        """``node``, which is around the block or its terms, with whole groups; what is left."""
        rest = self.end.count % self.unit.k
        if self.end.predicate is None or not rest:
            return (self._replaced(node, self._whole()),)
        last = self._last_group()
        if last is None:
            return (_unrolled(node),)
        inside = {inner.var for inner in walk((node,)) if isinstance(inner, Loop)}
        here = {var: form for var, form in last.items() if var in inside}
        outside = tuple(
            Predicate(Affine(((var, 1),)), form.const, form.const + 1)
            for var, form in last.items()
            if var not in inside
        )
        tail = substitute(
            without_loops((self._replaced(node, self._rest(rest, outside)),), here), here
        )
        whole = () if self.end.count < self.unit.k else (self._replaced(node, self._whole()),)
        return (*whole, *tail)

    def _whole(self) -> Store:
        predicates = self._others
        if self.end.predicate is not None:
            predicates = (*predicates, Predicate(self.end.base, 0, self._full))
        return self._store(_group(self._first(self.lhs)), predicates)

    def _rest(self, count: int, outside: tuple[Predicate, ...]) -> Store:
        """Where ``count`` elements are left: those after them are multiplied by zeros."""
        bits = 8 * size_of(self.unit.lhs)
        packed: Expr = Const(0, "int32")
        for n in range(count):
            values: Values = {self.block.terms.var: constant(n)}
            element: Expr = Unary(BITS, substitute_expr(self.lhs, values), "int32")
            element = binary("shift_left", element, bits * n) if n else element
            packed = binary("bit_or", packed, element) if n else element
        return self._store(packed, (*self._others, *outside))

    @property
    def _full(self) -> int:
        """Terms in whole groups."""
        return self.end.count // self.unit.k * self.unit.k

    @property
    def _others(self) -> tuple[Predicate, ...]:
        """Predicates of the statement that are not about the end of the terms."""
        return tuple(p for p in self.block.store.predicates if p is not self.end.predicate)

    def _store(self, lhs: Expr, predicates: tuple[Predicate, ...]) -> Store:
        operands = (lhs, _group(self._first(self.rhs)))
        if is_unsigned(self.unit.rhs):  # the instructions have unsigned elements first
            operands = operands[::-1]
        product = Binary(self.unit.name, *operands, self.unit.acc)
        return replace(self.block.store, values=(product,), predicates=predicates)

    def _first(self, load: BufferLoad) -> Expr:
        return substitute_expr(load, {self.block.terms.var: constant(0)})

    def _replaced(self, node: Node, store: Store) -> Node:
        if node is self.block.terms:
            return with_body(self.block.lanes, (store,))
        return map_body(node, lambda body: tuple(self._replaced(part, store) for part in body))

    def _last_group(self) -> dict[LoopVar, Affine] | None:
        """The values of the loops at which the last group starts; None where none is there."""
        loops = {loop.var: loop for loop in self.block.around}
        left, values = self._full, dict[LoopVar, Affine]()
        for var, _ in sorted(self.end.base.terms, key=lambda term: -int(loops[term[0]].stride)):
            stride, extent = int(loops[var].stride), int(loops[var].extent)
            trip = min(left // stride, extent - 1)
            values[var] = constant(trip * stride)
            left -= trip * stride
        ones = all(coefficient == 1 for _, coefficient in self.end.base.terms)
        return values if left == 0 and ones else None


def _block_in(node: Loop, around: tuple[Loop, ...]) -> _Block | None:
    """The block of a unit in a loop, where all that its terms are summed by is in that loop, too:
    the innermost loop of them that is executed as one, or one that is unrolled.
    """
    inside = [inner for inner in walk((node,)) if isinstance(inner, Loop)]
    terms = next((x for x in inside if x.kind is LoopKind.TENSOR and x.axis_kind == "reduce"), None)
    if terms is None or any(is_dynamic(inner) for inner in inside[1:]):
        return None
    if node is not terms and (node.var.axis is None or node.var.axis is not terms.var.axis):
        return None
    lanes = terms.body[0]
    if len(terms.body) != 1 or not isinstance(lanes, Loop):
        return None
    store = lanes.body[0]
    if len(lanes.body) != 1 or not isinstance(store, Store) or len(store.values) != 1:
        return None
    path = [x for x in inside if terms in walk(x.body)]
    return _Block(terms, lanes, store, (*around, *path))


def _loaded(factor: Expr) -> BufferLoad | None:
    load = factor.operand if isinstance(factor, Cast) else factor
    return load if isinstance(load, BufferLoad) else None


def _steps(load: BufferLoad, terms: LoopVar, lanes: LoopVar) -> tuple[int, int] | None:
    """Elements from term to term, and from lane to lane."""
    form, quasi = flatten(load.buffer, load.indices)
    if any({terms, lanes} & index_variables(index) for index, _ in quasi):
        return None
    return form.coefficient(terms), form.coefficient(lanes)


def _is_grouped(load: BufferLoad, terms: LoopVar, size: int) -> bool:
    """Whether groups are whole in memory."""
    last = load.indices[-1]
    alone = isinstance(last, Affine) and last == Affine(((terms, 1),))
    return alone and int(load.buffer.shape[-1]) == size


def _group(load: Expr) -> Expr:
    return Unary(GROUP, load, "int32")


def _unrolled(node: Node) -> Node:
    """Loops of units as plain ones."""
    if isinstance(node, Loop) and node.kind is LoopKind.TENSOR:
        node = replace(node, kind=LoopKind.UNROLLED)
    return map_body(node, lambda body: tuple(_unrolled(part) for part in body))
