"""What tensor units take and give: groups of elements, and lanes of several vectors in one."""

from __future__ import annotations

from typing import Protocol

from codegen.llvm.addresses import Guard
from codegen.llvm.memory import Memory
from codegen.llvm.offsets import Offsets
from codegen.llvm.values import Form, SsaValue, type_text, vector_type
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Binary, Expr, Unary
from sketch.lang.operator_names import GROUP, HIGH_HALF, JOIN, LOW_HALF
from sketch.nest.loopnest import BufferLoad


class PlainOperators(Protocol):
    """What evaluates expressions at the current point of a function."""

    memory: Memory
    offsets: Offsets
    guard: Guard

    def evaluate(self, expr: Expr) -> SsaValue:
        """The value of an expression under the current guard."""

    def materialise(self, value: SsaValue) -> SsaValue:
        """The value with a name."""

    def unary(self, expr: Unary) -> SsaValue:
        """The value of an operator on one operand, none of a tensor unit."""

    def binary(self, expr: Binary) -> SsaValue:
        """The value of an operator on two operands, none of a tensor unit."""


class UnitOperands:
    """Evaluates operators, those of tensor units by itself, all others as ``evaluator`` does."""

    def __init__(self, evaluator: PlainOperators) -> None:
        self.evaluator, self.memory = evaluator, evaluator.memory

    def unary(self, expr: Unary) -> SsaValue:
        """The value of an operator on one operand."""
        if expr.op == GROUP:
            return self._group(expr)
        if expr.op in (LOW_HALF, HIGH_HALF):
            return self._half(self.evaluator.evaluate(expr.operand), expr.op == HIGH_HALF)
        return self.evaluator.unary(expr)

    def binary(self, expr: Binary) -> SsaValue:
        """The value of an operator on two operands."""
        if expr.op != JOIN:
            return self.evaluator.binary(expr)
        evaluate, materialise = self.evaluator.evaluate, self.evaluator.materialise
        lhs, rhs = materialise(evaluate(expr.lhs)), materialise(evaluate(expr.rhs))
        return self._vectors(lhs, rhs) if lhs.width else self._words(lhs, rhs)

    def _group(self, expr: Unary) -> SsaValue:
        load, evaluator = expr.operand, self.evaluator
        assert isinstance(load, BufferLoad)
        form, extra = evaluator.offsets.of(load.buffer, load.indices, size_of(load.dtype))
        return load_group(self.memory, load, form, extra, evaluator.guard, expr.dtype)

    def _half(self, value: SsaValue, high: bool) -> SsaValue:
        count = value.width // 2
        first = count if high else 0
        ref = self._picked(value, value, range(first, first + count))
        return SsaValue(ref, value.dtype, count)

    def _vectors(self, lhs: SsaValue, rhs: SsaValue) -> SsaValue:
        width = lhs.width + rhs.width
        return SsaValue(self._picked(lhs, rhs, range(width)), lhs.dtype, width)

    def _picked(self, lhs: SsaValue, rhs: SsaValue, lanes: range) -> str:
        """Some of the lanes of two vectors."""
        kind = type_text(lhs.dtype, lhs.width)
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        text = f"shufflevector {kind} {lhs.ref}, {kind} {rhs.ref}, <{len(lanes)} x i32> <{order}>"
        return self.memory.cached(text, text)

    def _words(self, lhs: SsaValue, rhs: SsaValue) -> SsaValue:
        """Two int64 as four lanes."""
        kind, cached = vector_type("i64", 2), self.memory.cached
        text = f"insertelement {kind} poison, i64 {lhs.ref}, i64 0"
        text = f"insertelement {kind} {cached(text, text)}, i64 {rhs.ref}, i64 1"
        text = f"bitcast {kind} {cached(text, text)} to <4 x i32>"
        return SsaValue(cached(text, text), "int32", 4)


def load_group(
    memory: Memory,
    load: BufferLoad,
    form: Form,
    extra: SsaValue | None,
    guard: Guard,
    dtype: str,
) -> SsaValue:
    """The bytes of neighbouring elements as a scalar, or for each lane the next four as an int32.

    Args:
        memory: of the function.
        load: of the first element.
        form: its offset, affine in the loops' variables.
        extra: part of the offset that is known at run time only; None: none.
        guard: condition of the access.
        dtype: int32 or int64, what the bytes of a scalar are read as.
    """
    buffer = load.buffer
    width = memory.scope.width if form.lane else 0
    key = ("group", form, extra, guard.condition, guard.mask, width, dtype)
    known = memory.loads.setdefault(buffer, {})
    value = known.get(key)
    if value is None:
        address = memory.address(buffer, form, extra)._replace(align=size_of(buffer.dtype))
        ref = memory.load_words(dtype, width, address, guard)
        if width and buffer.ahead:
            memory.prefetches.add(buffer, form, address)
        value = known[key] = SsaValue(ref, dtype, width)
    return value
