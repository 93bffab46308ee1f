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

Of a joint unit, whose vectors have ``m`` rows of ``n`` columns, sums are in registers of their own:

    serial k:                                       serial k:
      tensor m in 0..2, p in 0..8:                    unrolled h in 0..2:
        vectorized j in 0..4:                   ->      tensor r in 0..2, vectorized lane in 0..4:
          acc[m, j] += A[m, k + p] * B[k, j, p]           block[h, lane] +=
                                                            unit(group(A[r, k]), group(B[k, 2 * h]))
                                                    acc[0..2, 0..4] = rows of block[0..2]

``h`` is which columns of a row, and a lane what a unit has there; what several rows give is put
together later (``joined_rows``), when it is known which of them there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.passes.affine import constant
from codegen.passes.joint_sums import JointSums, joint_sums
from codegen.passes.rewrite import (
    Nodes,
    Values,
    map_body,
    substitute,
    substitute_expr,
    substitute_predicates,
    with_body,
    without_loops,
)
from codegen.passes.tile_blocks import is_tile_loop
from codegen.passes.tile_registers import fills_zero
from codegen.passes.unit_blocks import TermsEnd, UnitBlock, block_in
from sketch.lang.dtypes import is_unsigned, size_of
from sketch.lang.expr import Binary, Const, Expr, Unary, binary, cast
from sketch.lang.operator_names import BITS, GROUP
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
)
from sketch.nest.walk import walk
from sketch.target.target import Target
from sketch.target.units import LANE_BYTES, TensorUnit, units_of


def tensorize(nest: LoopNest, target: Target) -> LoopNest:
    """The nest without loops of tensor units, but for rows of joint ones."""
    units = units_of(target)
    joint = tuple(unit for unit in units if unit.joint)
    own = tuple(unit for unit in units if not unit.joint)
    return replace(nest, roots=_Pass(own, joint).nodes(nest.roots, ()))


@dataclass(frozen=True, slots=True)
class _Pass:
    """``joint``: units whose sums are in registers of their own, which are none yet."""

    units: tuple[TensorUnit, ...]
    joint: tuple[TensorUnit, ...]

    def nodes(self, nodes: Nodes, around: tuple[Loop, ...]) -> Nodes:
        new: list[Node] = []
        for node in nodes:
            sums = self._sums(node, around)
            if sums is None:
                new.extend(self.node(node, around))
                continue
            zero = bool(new) and fills_zero(new[-1], sums.update)
            if zero:
                new.pop()
            inside = _Pass(self.joint, ()).node(sums.retargeted(), around)
            new.append(sums.around(inside, zero))
        return reused(new, nodes)

    def _sums(self, node: Node, around: tuple[Loop, ...]) -> JointSums | None:
        """The sums of a part of a nest that does nothing but add to them, on a joint unit."""
        if not self.joint or not isinstance(node, Loop):
            return None
        sums = joint_sums(node)
        use = None if sums is None else _use_in(node, around, self.joint)
        return sums if use is not None and use.is_whole else None

    def node(self, node: Node, around: tuple[Loop, ...]) -> Nodes:
        if not isinstance(node, Loop):
            return (map_body(node, lambda body: self.nodes(body, around)),)
        if is_tile_loop(node):
            return (node,)
        block = block_in(node, around)
        if block is not None:
            use = _use(block, self.units)
            return (_unrolled(node),) if use is None else use.pieces(node)
        if node.kind is LoopKind.TENSOR:
            return (_unrolled(node),)
        return (map_body(node, lambda body: self.nodes(body, (*around, node))),)


def _use_in(node: Node, around: tuple[Loop, ...], units: tuple[TensorUnit, ...]) -> _Use | None:
    """How units compute the one block in a part of a nest, if one does."""
    if not isinstance(node, Loop):
        return None
    block = block_in(node, around)
    if block is not None:
        return _use(block, units)
    found = (_use_in(inner, (*around, node), units) for inner in node.body)
    return next((use for use in found if use is not None), None)


def _use(block: UnitBlock, units: tuple[TensorUnit, ...]) -> _Use | None:
    """How the first unit that computes a block does it."""
    for unit in units:
        if block.is_of(unit):
            operands, end = block.operands(unit), block.end()
            if operands is not None and end is not None:
                return _Use(block, unit, *operands, end)
    return None


@dataclass(frozen=True, slots=True)
class _Use:
    """A block that a unit computes."""

    block: UnitBlock
    unit: TensorUnit
    lhs: BufferLoad
    rhs: BufferLoad
    end: TermsEnd

    @property
    def is_whole(self) -> bool:
        """Whether all of the block is computed by the unit."""
        rest = self.end.count % self.unit.k
        return self.end.predicate is None or not rest or self._last_group() is not None

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

    def _whole(self) -> Node:
        predicates = self._others
        if self.end.predicate is not None:
            predicates = (*predicates, Predicate(self.end.base, 0, self._full))
        return self._store(Unary(GROUP, self._first(self.lhs), self._word), predicates)

    def _rest(self, count: int, outside: tuple[Predicate, ...]) -> Node:
        """Where ``count`` elements are left: those after them are multiplied by zeros."""
        bits = 8 * size_of(self.unit.lhs)
        packed: Expr = Const(0, self._word)
        for n in range(count):
            values: Values = {self.block.terms.var: constant(n)}
            element: Expr = Unary(BITS, substitute_expr(self.lhs, values), "int32")
            element = cast(element, self._word)
            element = binary("shift_left", element, bits * n) if n else element
            packed = binary("bit_or", packed, element) if n else element
        return self._store(packed, (*self._others, *outside))

    @property
    def _word(self) -> str:
        """The type that the elements of one row have together."""
        return f"int{8 * self.unit.k * size_of(self.unit.lhs)}"

    @property
    def _full(self) -> int:
        """Terms in whole groups."""
        return self.end.count // self.unit.k * self.unit.k

    @property
    def _others(self) -> tuple[Predicate, ...]:
        """Predicates of the statement that are not about the end of the terms."""
        return tuple(p for p in self.block.store.predicates if p is not self.end.predicate)

    def _store(self, lhs: Expr, predicates: tuple[Predicate, ...]) -> Node:
        """The statement in its lanes, of a joint unit for each row."""
        block, unit = self.block, self.unit
        rhs = self._columns() if unit.joint else Unary(GROUP, self._first(self.rhs), "int32")
        rows = _rows_apart(block) if unit.joint else {}
        operands = (substitute_expr(lhs, rows), rhs)
        if is_unsigned(unit.rhs) and not is_unsigned(unit.lhs):
            operands = operands[::-1]  # the instructions have unsigned elements first
        store = replace(
            block.store,
            values=(Binary(unit.name, *operands, unit.acc),),
            predicates=substitute_predicates(predicates, rows),
        )
        inner: Node = with_body(block.lanes, (store,))
        for loop, form in zip(block.rows, rows.values(), strict=False):
            inner = replace(loop, var=form.terms[0][0], body=(inner,))
        return inner

    def _columns(self) -> Expr:
        """All columns of the second operand that a joint unit takes: what is in each lane."""
        (rows,), words = self.block.rows, LANE_BYTES // size_of(self.unit.rhs)
        values: Values = {
            self.block.lanes.var: Affine(((rows.var, self.unit.n),)),
            self.block.terms.var: Affine(((self.block.lanes.var, words),)),
        }
        return Unary(GROUP, substitute_expr(self.rhs, values), "int32")

    def _first(self, load: BufferLoad) -> Expr:
        return substitute_expr(load, {self.block.terms.var: constant(0)})

    def _replaced(self, node: Node, new: Node) -> Node:
        """``node`` with ``new`` in place of the block's terms."""
        if node is self.block.terms:
            return new
        changed = map_body(node, lambda body: tuple(self._replaced(part, new) for part in body))
        if node in self.block.rows:  # now vectors of columns
            return _of_kind(changed, LoopKind.UNROLLED)
        return changed

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


def _rows_apart(block: UnitBlock) -> dict[LoopVar, Affine]:
    """The variable of rows as one of its own."""
    return {loop.var: Affine(((LoopVar("row"), 1),)) for loop in block.rows}


def _of_kind(node: Node, kind: LoopKind) -> Node:
    return replace(node, kind=kind) if isinstance(node, Loop) else node


def _unrolled(node: Node) -> Node:
    """Loops of units as plain ones."""
    if isinstance(node, Loop) and node.kind is LoopKind.TENSOR:
        node = replace(node, kind=LoopKind.UNROLLED)
    return map_body(node, lambda body: tuple(_unrolled(part) for part in body))
