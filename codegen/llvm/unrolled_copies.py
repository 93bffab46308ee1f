"""Unrolled statements on registers: most code is made here.

    for r unrolled: for v unrolled: for lanes: acc[r, v] += a[r] * w[v]

What the copies of such a statement have in common is looked up once for all of them: they differ in
the places of their operands alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.llvm.addresses import ALWAYS
from codegen.llvm.scope import KnownAccess
from codegen.llvm.statements import Statements
from codegen.llvm.values import SsaValue
from sketch.lang.dtypes import is_float
from sketch.lang.expr import Binary, Const, Expr
from sketch.lang.reducers import is_sum
from sketch.nest.loopnest import BufferLoad, Loop, LoopKind, Node, Store

_Read = tuple[BufferLoad, KnownAccess]


@dataclass(slots=True)
class _Statement:
    """A statement at a place in the code.

    Attributes:
        store: the statement.
        target: where in the registers its result is.
        reads: what it copies, what it adds, or two factors; none: it puts a literal there.
        literal: as it is in the registers, once it was put there.
    """

    store: Store
    target: KnownAccess
    reads: tuple[_Read, ...]
    literal: SsaValue | None = None


class UnrolledCopies:
    """Emits nests of unrolled loops around a copy, a literal, or a sum of values or products."""

    def __init__(self, statements: Statements) -> None:
        self._statements, self._evaluator = statements, statements.evaluator
        self._scope = statements.scope

    def emit(self, loop: Loop) -> bool:
        """All copies of the statement in a nest; False, with nothing written, for other nests."""
        loops, lanes, store = nest_of(loop)
        terms = None if store is None else _terms(store)
        if store is None or terms is None:
            return False
        scope = self._scope
        outer = scope.lane, scope.width, scope.lane_step
        if lanes is not None:
            scope.enter_lanes(lanes.var, int(lanes.extent), int(lanes.stride))
        scope.static.update({inner.var: 0 for inner in loops})  # places are found with them
        statement = self._located(store, terms)
        if statement is not None:
            self._copies(loops, statement)
        for inner in loops:
            scope.static.pop(inner.var, None)
        scope.enter_lanes(*outer)
        return statement is not None

    def _located(self, store: Store, terms: Sequence[BufferLoad]) -> _Statement | None:
        """None where an index is not affine, or the result is in memory."""
        access = self._evaluator.access
        target = access(store.targets[0], store.indices)
        if target is None or target.in_memory:
            return None
        found = [(load, access(load.buffer, load.indices)) for load in terms]
        reads = tuple([(load, place) for load, place in found if place is not None])
        return _Statement(store, target, reads) if len(reads) == len(found) else None

    def _copies(self, loops: Sequence[Loop], statement: _Statement) -> None:
        loop, *inside = loops
        static, prefetches = self._scope.static, self._evaluator.memory.prefetches
        for value in range(0, int(loop.extent) * int(loop.stride), int(loop.stride)):
            static[loop.var] = value
            if loop.axis_kind == "reduce" and value:
                prefetches.keep_apart()
            if inside:
                self._copies(inside, statement)
            else:
                self._copy(statement)

    def _copy(self, statement: _Statement) -> None:
        """One instance, with the unrolled variables as they are in the scope."""
        store, statements = statement.store, self._statements
        if store.predicates:
            verdict = statements.decided(store.predicates)
            if verdict is None:
                statements.emit(store)
            if not verdict:
                return
        evaluator, reads = self._evaluator, statement.reads
        cell = store.targets[0], statement.target.plan.value(self._scope.static)
        if statement.literal is not None:
            evaluator.cells[cell] = statement.literal
            return
        evaluator.begin(ALWAYS)
        if not reads:
            statements.put(cell, evaluator.evaluate(store.values[0]), ALWAYS)
            statement.literal = evaluator.cells[cell]
            return
        if len(reads) == 2:
            lhs, rhs = evaluator.load_at(*reads[0]), evaluator.load_at(*reads[1])
            new = statements.plus_product(evaluator.cells[cell], lhs, rhs)
        else:
            new = evaluator.load_at(*reads[0])
            if store.reducer is not None:
                new = statements.plus("add", evaluator.cells[cell], new)
        statements.put(cell, new, ALWAYS)


def nest_of(loop: Loop) -> tuple[list[Loop], Loop | None, Store | None]:
    """Unrolled loops, the lanes inside, if there are some, and the only statement; None: no such
    nest.
    """
    loops, inner = [loop], _only(loop)
    while isinstance(inner, Loop) and inner.kind is LoopKind.UNROLLED and not inner.clip:
        loops.append(inner)
        inner = _only(inner)
    lanes: Loop | None = None
    if isinstance(inner, Loop) and is_plain_vector(inner):
        lanes, inner = inner, _only(inner)
    return loops, lanes, inner if isinstance(inner, Store) else None


def _only(loop: Loop) -> Node | None:
    return loop.body[0] if len(loop.body) == 1 else None


def is_plain_vector(loop: Loop) -> bool:
    """Whether a loop is lanes of what its body computes, not lanes that it reduces."""
    return loop.kind is LoopKind.VECTORIZED and not loop.clip and loop.axis_kind != "reduce"


def _terms(store: Store) -> tuple[BufferLoad, ...] | None:
    """What a statement copies or adds, or the two factors of it; None for other statements."""
    value = store.values[0]
    if store.reducer is None:
        if len(store.values) == 1 and isinstance(value, BufferLoad):
            return (value,)
        return () if len(store.values) == 1 and isinstance(value, Const) else None
    if not is_sum(store.reducer):
        return None
    parts: tuple[Expr, ...] = (value,)
    if isinstance(value, Binary) and value.op == "mul" and is_float(store.targets[0].dtype):
        parts = value.lhs, value.rhs
    found = tuple([part for part in parts if isinstance(part, BufferLoad)])
    return found if len(found) == len(parts) else None
