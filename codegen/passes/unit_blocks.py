"""Blocks of a tensor unit on vectors: the loops that one instruction executes.

    tensor m in 0..2:
      tensor p in 0..4:
        vectorized j in 0..16:
          acc[m, j] += i32(A[m, k + p]) * i32(B[k, j, p])

Units of one row have no loop over ``m``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from codegen.passes.affine import flatten, interval, loop_range, variables
from codegen.passes.rewrite import is_dynamic
from sketch.lang.expr import Binary, Cast, Expr
from sketch.lang.reducers import is_sum
from sketch.nest.loopnest import (
    Affine,
    BufferLoad,
    Loop,
    LoopKind,
    LoopVar,
    Predicate,
    Store,
)
from sketch.nest.walk import index_variables, walk
from sketch.target.units import TensorUnit


@dataclass(frozen=True, slots=True)
class TermsEnd:
    """The terms whose place ``base + term`` is below ``count``; without a predicate, all are."""

    predicate: Predicate | None
    base: Affine
    count: int


@dataclass(frozen=True, slots=True)
class UnitBlock:
    """The loops of a unit: its terms, its lanes, the statement, and all loops around the terms."""

    terms: Loop
    lanes: Loop
    store: Store
    around: tuple[Loop, ...]

    @property
    def rows(self) -> tuple[Loop, ...]:
        """The loop of several rows, if the unit computes several."""
        return tuple(loop for loop in self.around if loop.kind is LoopKind.TENSOR)

    def is_of(self, unit: TensorUnit) -> bool:
        """Whether extents are those of a unit; what a joint one computes is whole vectors."""
        rows = prod(int(loop.extent) for loop in self.rows)
        found = rows, int(self.lanes.extent), int(self.terms.extent)
        if found != (unit.m, unit.columns, unit.k) or self.lanes.kind is not LoopKind.VECTORIZED:
            return False
        tested = [variables(predicate.index) for predicate in self.store.predicates]
        return not unit.joint or not any(self.lanes.var in used for used in tested)

    def operands(self, unit: TensorUnit) -> tuple[BufferLoad, BufferLoad] | None:
        """What is multiplied, if its types and layouts are those of a unit."""
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

    def end(self) -> TermsEnd | None:
        """Where the terms end; None where predicates on them are of another form."""
        own = self.terms.var
        found = [p for p in self.store.predicates if own in variables(p.index)]
        if not found:
            return TermsEnd(None, Affine(()), 0)
        (predicate, *others), loops = found, {loop.var: loop for loop in self.around}
        inner = {loop.var: loop for loop in (self.terms, self.lanes)}
        base = Affine(tuple(t for t in predicate.index.terms if t[0] is not own))
        size = int(self.terms.extent)
        rows = {loop.var for loop in self.rows}
        whole = all(
            v in loops and v not in rows and c * int(loops[v].stride) % size == 0
            for v, c in base.terms
        )
        if others or predicate.index.coefficient(own) != 1 or not whole:
            return None
        low, _ = interval(predicate.index, {v: loop_range(x) for v, x in (loops | inner).items()})
        if low < predicate.low:
            return None
        return TermsEnd(predicate, base, predicate.high - predicate.index.const)


def block_in(node: Loop, around: tuple[Loop, ...]) -> UnitBlock | None:
    """The block of a unit in a loop, where all that its terms are summed by is in that loop, too:
    the innermost loop of them that is executed as one, or one that is unrolled.
    """
    inside = [inner for inner in walk((node,)) if isinstance(inner, Loop)]
    terms = next((x for x in inside if x.kind is LoopKind.TENSOR and x.axis_kind == "reduce"), None)
    if terms is None or any(is_dynamic(inner) for inner in inside[1:]):
        return None
    own = node is terms or node.kind is LoopKind.TENSOR
    if not own and (node.var.axis is None or node.var.axis is not terms.var.axis):
        return None
    lanes = terms.body[0]
    if len(terms.body) != 1 or not isinstance(lanes, Loop):
        return None
    store = lanes.body[0]
    if len(lanes.body) != 1 or not isinstance(store, Store) or len(store.values) != 1:
        return None
    path = [x for x in inside if terms in walk(x.body)]
    return UnitBlock(terms, lanes, store, (*around, *path))


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
