"""Arithmetic of one kind of float in LLVM IR, for scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from codegen.llvm.values import SSA_TYPES, literal, vector_type
from codegen.llvm.writer import Writer


class FloatOperations:
    """Operations for one vector width (0: scalars).  Operands and results are SSA names."""

    dtype: ClassVar[str] = "float32"
    integer: ClassVar[str] = "i32"  # of as many bits

    def __init__(self, writer: Writer, width: int) -> None:
        self.writer = writer
        self.width = width
        self.scalar = SSA_TYPES[self.dtype]
        self.float = vector_type(self.scalar, width)
        self.int = vector_type(self.integer, width)
        self.mask = vector_type("i1", width)

    def into(self, writer: Writer) -> Self:
        """The same operations, written elsewhere."""
        return type(self)(writer, self.width)

    def _splat(self, kind: str, text: str) -> str:
        return f"splat ({kind} {text})" if self.width else text

    def const(self, value: float) -> str:
        """A literal."""
        return self._splat(self.scalar, literal(value, self.dtype))

    def const_int(self, value: int) -> str:
        """An integer literal."""
        return self._splat(self.integer, str(value))

    def _intrinsic(self, name: str, *operands: str) -> str:
        return self.writer.intrinsic(name, self.scalar, self.width, operands)

    def _op(self, op: str, kind: str, lhs: str, rhs: str) -> str:
        return self.writer.emit(f"{op} {kind} {lhs}, {rhs}")

    def add(self, lhs: str, rhs: str) -> str:
        """``lhs + rhs``, never contracted."""
        return self._op("fadd", self.float, lhs, rhs)

    def sub(self, lhs: str, rhs: str) -> str:
        """``lhs - rhs``, never contracted."""
        return self._op("fsub", self.float, lhs, rhs)

    def mul(self, lhs: str, rhs: str) -> str:
        """``lhs * rhs``, never contracted."""
        return self._op("fmul", self.float, lhs, rhs)

    def div(self, lhs: str, rhs: str) -> str:
        """``lhs / rhs``."""
        return self._op("fdiv", self.float, lhs, rhs)

    def fma(self, lhs: str, rhs: str, addend: str) -> str:
        """``lhs * rhs + addend``."""
        return self._intrinsic("fmuladd", lhs, rhs, addend)

    def neg(self, x: str) -> str:
        """``-x``."""
        return self.writer.emit(f"fneg {self.float} {x}")

    def horner(self, coefficients: Sequence[float], x: str) -> str:
        """A polynomial, highest coefficient first."""
        result = self.const(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.fma(result, x, self.const(coefficient))
        return result

    def test(self, condition: str, lhs: str, rhs: str) -> str:
        """A comparison, such as ``olt``."""
        return self._op(f"fcmp {condition}", self.float, lhs, rhs)

    def both(self, lhs: str, rhs: str) -> str:
        """Where both tests hold."""
        return self._op("and", self.mask, lhs, rhs)

    def either(self, lhs: str, rhs: str) -> str:
        """Where one of two tests holds."""
        return self._op("or", self.mask, lhs, rhs)

    def pick(self, test: str, lhs: str, rhs: str) -> str:
        """``lhs`` where ``test``, else ``rhs``."""
        return self.writer.emit(
            f"select {self.mask} {test}, {self.float} {lhs}, {self.float} {rhs}"
        )

    def bits(self, x: str) -> str:
        """The float's bits as an integer."""
        return self.writer.emit_free(f"bitcast {self.float} {x} to {self.int}")

    def from_bits(self, x: str) -> str:
        """The float with these bits."""
        return self.writer.emit_free(f"bitcast {self.int} {x} to {self.float}")

    def fabs(self, x: str) -> str:
        """Absolute value."""
        return self._intrinsic("fabs", x)

    def copysign(self, x: str, sign: str) -> str:
        """``x`` with the sign of ``sign``."""
        return self._intrinsic("copysign", x, sign)

    def sqrt(self, x: str) -> str:
        """Square root, correctly rounded."""
        return self._intrinsic("sqrt", x)

    def rsqrt(self, x: str) -> str:
        """``1 / sqrt(x)``."""
        return self.div(self.const(1.0), self.sqrt(x))

    def _clamp(self, x: str, low: float, high: float) -> str:
        """Limit x; NaN passes."""
        below = self.test("olt", x, self.const(low))
        x = self.pick(below, self.const(low), x)
        above = self.test("ogt", x, self.const(high))
        return self.pick(above, self.const(high), x)

    def _share(self, x: str, e: str) -> str:
        """``1 / (1 + exp(-x))`` by ``e``, which is exp(-|x|): small results keep their digits."""
        bottom = self.add(e, self.const(1.0))
        negative = self.test("olt", x, self.const(0.0))
        return self.div(self.pick(negative, e, self.const(1.0)), bottom)
