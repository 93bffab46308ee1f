"""Scalar expressions to SSA values: lazily for integers, lane by lane for vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from codegen.errors import CodegenError
from codegen.llvm import forms
from codegen.llvm.addresses import ALWAYS, Guard, lane_constants
from codegen.llvm.arithmetic import Arithmetic
from codegen.llvm.dependence import Dependence
from codegen.llvm.index_bounds import IndexBounds
from codegen.llvm.memory import Memory
from codegen.llvm.offsets import Offsets
from codegen.llvm.scope import KnownAccess, LoopScope
from codegen.llvm.unit_operands import UnitOperands
from codegen.llvm.values import (
    FLOAT_ZERO,
    SSA_TYPES,
    SsaValue,
    constant,
    identical_operand,
    mask_literal,
    of_literal,
    type_text,
    vector_type,
)
from codegen.llvm.writer import Writer
from sketch.lang.dtypes import is_float, size_of
from sketch.lang.expr import Binary, Cast, Const, Expr, Select, Unary, Var
from sketch.lang.operator_names import COMPARISON, LOGICAL
from sketch.nest.loopnest import Affine, AffineValue, Buffer, BufferLoad, Index, LoopVar

Cell = tuple[Buffer, int]
_OPERATORS = frozenset((Binary, Unary, Select, Cast))


class ExpressionEmitter:
    """Evaluates expressions at the current point of a function.

    ``cells`` holds the SSA values of register buffers by flat offset; ``names_read``: those read.
    """

    def __init__(
        self, writer: Writer, scope: LoopScope, memory: Memory, arithmetic: Arithmetic
    ) -> None:
        self.writer, self.scope = writer, scope
        self.memory, self.arithmetic = memory, arithmetic
        self.cells: dict[Cell, SsaValue] = {}
        self.names_read: set[str] = set()
        self.guard = ALWAYS
        self.bindings: Mapping[Var, SsaValue] = {}
        self._memo: dict[int, SsaValue] = {}
        self._accesses: dict[tuple[Buffer, int, LoopVar | None], KnownAccess | None] = {}
        self._epoch = -1
        self._dependence, self._bounds = Dependence(), IndexBounds(scope)
        self.offsets = Offsets(self, self._dependence)
        # keyed by the identity of literals, which the nest keeps alive
        self._constants: dict[int, SsaValue] = {}
        self._visit: dict[type, Callable[..., SsaValue]] = {
            Const: self._const,
            AffineValue: self._affine_value,
            LoopVar: self._loop_var,
            Var: self._var,
            Binary: UnitOperands(self).binary,
            Unary: UnitOperands(self).unary,
            Select: self._select,
            Cast: self._cast,
        }

    def begin(self, guard: Guard) -> None:
        """Start a statement instance."""
        self.guard = guard
        self._memo = {}

    def evaluate(self, expr: Expr) -> SsaValue:
        """The value of an expression under the current guard; raises CodegenError."""
        if type(expr) is BufferLoad:  # remembered where loads are
            return self.load(expr.buffer, expr.indices)
        known = self._memo.get(id(expr))
        if known is None:
            visit = self._visit.get(type(expr))
            if visit is None:
                raise CodegenError(f"{type(expr).__name__} cannot appear in a loop nest")
            known = self._memo[id(expr)] = self._fixed(expr, visit)
        return known

    def _fixed(self, expr: Expr, visit: Callable[..., SsaValue]) -> SsaValue:
        """What loop variables alone decide is computed once in a basic block."""
        if type(expr) not in _OPERATORS:
            return visit(expr)
        used = self._dependence.variables(expr)
        if used is None:
            return visit(expr)
        scope, fixed = self.scope, self.memory.fixed
        lanes = scope.width if scope.lane in used else 0
        key = (id(expr), lanes, scope.lane if lanes else None, *map(scope.static.get, used))
        known = fixed.get(key)
        if known is None:
            known = fixed[key] = visit(expr)
        return known

    # operands

    def materialise(self, value: SsaValue) -> SsaValue:
        """The value with a ``ref``: integer forms are written out."""
        form = value.form
        if form is None or value.ref:
            return value
        if forms.is_constant(form):
            return SsaValue(str(form.const), value.dtype, 0, form.const, form)
        kind = SSA_TYPES[value.dtype]
        uniform = self.scope.scalar(form.dynamic, form.const)
        if value.dtype == "int32" and uniform.startswith("%"):
            uniform = self.memory.cached(("i32", uniform), f"trunc i64 {uniform} to i32")
        if not form.lane:
            return SsaValue(uniform, value.dtype, 0, None, form)
        width = self.scope.width
        vector, all_lanes = vector_type(kind, width), self._widen(uniform, kind, width)
        steps = lane_constants(form.lane, width).replace("i64 ", f"{kind} ")
        ref = self.memory.cached(
            ("lanes", vector, all_lanes, form.lane), f"add {vector} {all_lanes}, {steps}"
        )
        return SsaValue(ref, value.dtype, width, None, form)

    def _widen(self, ref: str, kind: str, width: int) -> str:
        if not ref.startswith("%"):
            return "zeroinitializer" if ref == FLOAT_ZERO else f"splat ({kind} {ref})"
        return self.memory.splat(ref, kind, width)

    def operand(self, value: SsaValue, width: int) -> str:
        """The text of a value as an operand of ``width`` lanes."""
        if not value.ref:
            value = self.materialise(value)
        if value.width == width:
            return value.ref
        return self._widen(value.ref, SSA_TYPES[value.dtype], width)

    def both(self, lhs: SsaValue, rhs: SsaValue) -> tuple[int, str, str]:
        """The wider of two widths, and both operands with as many lanes."""
        lhs, rhs = self.materialise(lhs), self.materialise(rhs)
        width = max(lhs.width, rhs.width)
        return width, self.operand(lhs, width), self.operand(rhs, width)

    # leaves

    def _const(self, expr: Const) -> SsaValue:
        known = self._constants.get(id(expr))
        return known or self._constants.setdefault(id(expr), constant(expr.value, expr.dtype))

    def _affine_value(self, expr: AffineValue) -> SsaValue:
        return SsaValue("", "int64", 0, None, self.scope.resolve(expr.index))

    def _loop_var(self, expr: LoopVar) -> SsaValue:
        return SsaValue("", "int64", 0, None, self.scope.resolve(Affine(((expr, 1),))))

    def _var(self, expr: Var) -> SsaValue:
        return self.bindings[expr]

    # memory

    def access(self, buffer: Buffer, indices: tuple[Index, ...]) -> KnownAccess | None:
        """The access at this place in the code, None where an index is quasi-affine."""
        scope = self.scope
        if self._epoch != scope.epoch:
            self._accesses.clear()
            self._epoch = scope.epoch
        key = (buffer, id(indices), scope.lane)
        if key in self._accesses:
            return self._accesses[key]
        form, quasi = self.offsets.flattened(buffer, indices)
        access = (
            None
            if quasi
            else KnownAccess(scope.plan(form), buffer in self.memory.bases, self.memory.epoch)
        )
        self._accesses[key] = access
        return access

    def cell(self, buffer: Buffer, indices: tuple[Index, ...]) -> Cell | None:
        """The register cell of an access, None when the buffer is in memory."""
        access = self.access(buffer, indices)
        if access is None or access.in_memory:
            return None
        return buffer, access.plan.value(self.scope.static)

    def load(self, buffer: Buffer, indices: tuple[Index, ...]) -> SsaValue:
        """An element of a buffer: a register cell or a load."""
        access = self.access(buffer, indices)
        if access is None:
            return self._load_memory(buffer, indices)
        return self._read(buffer, indices, access)

    def load_at(self, load: BufferLoad, access: KnownAccess) -> SsaValue:
        """``load`` of an access that is known."""
        return self._read(load.buffer, load.indices, access)

    def _read(self, buffer: Buffer, indices: tuple[Index, ...], access: KnownAccess) -> SsaValue:
        offset = access.plan.value(self.scope.static)
        if not access.in_memory:
            self.names_read.add((held := self.cells[buffer, offset]).ref)
            return held
        if self.guard is not ALWAYS:
            return self._load_memory(buffer, indices)
        if access.epoch != self.memory.epoch:
            access.known.clear()
            access.epoch = self.memory.epoch
        value = access.known.get(offset)
        if value is None:
            form = self.scope.resolve(access.plan.index, size_of(buffer.dtype))
            value = access.known[offset] = self.memory.load(buffer, form, None, ALWAYS)
        return value

    def _load_memory(self, buffer: Buffer, indices: tuple[Index, ...]) -> SsaValue:
        form, extra = self.offsets.of_read(buffer, indices, size_of(buffer.dtype))
        inside = self.guard is ALWAYS or self._bounds.contain(buffer, indices)
        return self.memory.load(buffer, form, extra, ALWAYS if inside else self.guard)

    # operators

    def binary(self, expr: Binary) -> SsaValue:
        """The value of an operator on two operands, none of a tensor unit."""
        lhs = self.evaluate(expr.lhs)
        if expr.op in LOGICAL:
            if lhs.const is not None and bool(lhs.const) != (expr.op == "and"):
                return lhs
            return self._logical(expr.op, lhs, self.evaluate(expr.rhs))
        rhs = self.evaluate(expr.rhs)
        if expr.op in COMPARISON:
            return self._compare(expr.op, lhs, rhs)
        if lhs.form is not None and rhs.form is not None:
            form = forms.combine(self.scope, expr.op, lhs.form, rhs.form)
            if form is not None and forms.fits(self.scope, form, expr.dtype):
                return SsaValue(
                    "", expr.dtype, 0, form.const if forms.is_constant(form) else None, form
                )
        same = identical_operand(expr.op, expr.dtype, lhs, rhs)
        if same is not None:
            return same
        width, left, right = self.both(lhs, rhs)
        ref = self.arithmetic.binary(expr.op, expr.dtype, width, left, right)
        return SsaValue(ref, expr.dtype, width)

    def _logical(self, op: str, lhs: SsaValue, rhs: SsaValue) -> SsaValue:
        for known, other in ((lhs, rhs), (rhs, lhs)):
            if known.const is not None:
                return other if bool(known.const) == (op == "and") else known
        width, left, right = self.both(lhs, rhs)
        return SsaValue(self.arithmetic.logical(op, width, left, right), "bool", width)

    def _compare(self, op: str, lhs: SsaValue, rhs: SsaValue) -> SsaValue:
        if lhs.form is not None and rhs.form is not None:
            verdict = forms.compare(self.scope, op, lhs.form, rhs.form)
            if verdict is not None:
                return constant(verdict, "bool")
            lanes = forms.constant_lanes(self.scope, op, lhs.form, rhs.form)
            if lanes is not None:
                return SsaValue(mask_literal(lanes), "bool", len(lanes))
            lhs, rhs = forms.in_short_lanes(self.scope, lhs, rhs)
        width, left, right = self.both(lhs, rhs)
        ref = self.arithmetic.compare(op, lhs.dtype, width, left, right)
        return SsaValue(ref, "bool", width)

    def unary(self, expr: Unary) -> SsaValue:
        """The value of an operator on one operand, none of a tensor unit."""
        value = self.evaluate(expr.operand)
        if expr.op == "neg" and value.form is not None:
            form = forms.scale(value.form, -1)
            if forms.fits(self.scope, form, expr.dtype):
                return SsaValue("", expr.dtype, 0, None, form)
        if expr.op in ("neg", "not") and value.const is not None:
            return constant(of_literal(expr.op, value.const, expr.dtype), expr.dtype)
        value = self.materialise(value)
        ref = self.arithmetic.unary(expr.op, value.dtype, value.width, value.ref)
        return SsaValue(ref, expr.dtype, value.width)

    def convert(self, value: SsaValue, dtype: str) -> SsaValue:
        """``value`` as another dtype, with a ``ref``."""
        value = self.materialise(value)
        if value.dtype == dtype:
            return value
        ref = self.arithmetic.cast(value.dtype, dtype, value.width, value.ref)
        return SsaValue(ref, dtype, value.width)

    def _cast(self, expr: Cast) -> SsaValue:
        inner = expr.operand
        if isinstance(inner, Cast) and self.arithmetic.stays_float(inner, expr.dtype):
            value = self.materialise(self.evaluate(inner.operand))
            if value.width:
                ref = self.arithmetic.within_byte(value.width, value.ref)
                return SsaValue(ref, expr.dtype, value.width)
        value = self.evaluate(inner)
        if value.form is not None and forms.fits(self.scope, value.form, expr.dtype):
            return SsaValue("", expr.dtype, 0, value.const, value.form)
        if value.form is not None and forms.is_constant(value.form) and is_float(expr.dtype):
            return constant(float(value.form.const), expr.dtype)
        return self.convert(forms.in_short_lanes(self.scope, value)[0], expr.dtype)

    def _select(self, expr: Select) -> SsaValue:
        test = self.evaluate(expr.condition)
        while test.const is not None:  # a chain of them picks the row of a matrix, say
            chosen = expr.then if test.const else expr.otherwise
            if type(chosen) is not Select:
                return self.evaluate(chosen)
            expr, test = chosen, self.evaluate(chosen.condition)
        for value in self._dependence.shared(expr):
            self.evaluate(value)
        then = self._under(test, False, expr.then)
        otherwise = self._under(test, True, expr.otherwise)
        then, otherwise = self.materialise(then), self.materialise(otherwise)
        if self._zero_already(test, then, otherwise):
            return then
        width = max(test.width, then.width, otherwise.width)
        mask = self.operand(test, width)
        ref = self.arithmetic.select(
            expr.dtype, width, mask, self.operand(then, width), self.operand(otherwise, width)
        )
        return SsaValue(ref, expr.dtype, width)

    def _zero_already(self, test: SsaValue, then: SsaValue, otherwise: SsaValue) -> bool:
        """Whether 0 is wanted where the test fails, and ``then`` was read from zeros there."""
        zero, known = otherwise.const, self.memory.zero_unless.get(then.ref)
        if known is None or test.width or zero != 0 or math.copysign(1.0, zero) < 0:
            return False
        return known == self._condition(test.ref)

    def _condition(self, test: str) -> str:
        """A scalar test, and the condition under which all of the expression is evaluated."""
        if (outer := self.guard.condition) is None:
            return test
        return self.memory.cached(("and", test, outer), f"and i1 {test}, {outer}")

    def _under(self, test: SsaValue, negate: bool, expr: Expr) -> SsaValue:
        """Evaluate a branch of a select: its loads happen only where the branch is taken.

        What is known outside of the branch is known in it, but not the other way round.
        """
        if not self._dependence.reads(expr):
            return self.evaluate(expr)
        outer = self.guard
        kind = type_text("bool", test.width)
        ref = test.ref
        if negate:
            ones = self.arithmetic.splat("true", "bool", test.width)
            ref = self.memory.cached(("not", ref), f"xor {kind} {ref}, {ones}")
        if test.width:
            mask = ref if outer.mask is None else self.memory.both(ref, outer.mask, test.width)
            self.guard = Guard(outer.condition, mask)
        else:
            self.guard = Guard(self._condition(ref), outer.mask)
        memo = self._memo
        known_outside = len(memo)
        value = self.materialise(self.evaluate(expr))
        while len(memo) > known_outside:
            memo.popitem()  # the last one that was added
        self.guard = outer
        return value
