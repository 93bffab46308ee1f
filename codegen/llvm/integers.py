"""Integer operators in LLVM IR: nothing here is undefined, whatever the operands are.

Results wrap around.  A quotient or remainder by 0 is 0; the least number by -1 is itself, with
remainder 0.  A shift by less than 0 or by all bits and more shifts everything out.
"""

from __future__ import annotations

from typing import Final

from codegen.errors import CodegenError
from codegen.llvm.values import type_text
from codegen.llvm.writer import Writer
from sketch.lang.dtypes import is_unsigned, size_of

_PLAIN: Final = {
    "add": "add", "sub": "sub", "mul": "mul", "bit_and": "and", "bit_or": "or", "bit_xor": "xor",
}  # fmt: skip
_DIVISIONS: Final = ("floordiv", "mod", "trunc_div", "trunc_mod")


class Integers:
    """Writes operators of one integer dtype and width (0: scalars)."""

    def __init__(self, writer: Writer, dtype: str, width: int) -> None:
        self.writer, self.dtype, self.width = writer, dtype, width
        self.scalar, self.kind = type_text(dtype, 0), type_text(dtype, width)
        self.mask = type_text("bool", width)
        self.unsigned = is_unsigned(dtype)
        self.bits = 8 * size_of(dtype)

    def const(self, value: int) -> str:
        """A literal."""
        return f"splat ({self.scalar} {value})" if self.width else str(value)

    def _op(self, op: str, lhs: str, rhs: str) -> str:
        return self.writer.emit_free(f"{op} {self.kind} {lhs}, {rhs}")

    def _pick(self, test: str, lhs: str, rhs: str) -> str:
        return self.writer.emit(f"select {self.mask} {test}, {self.kind} {lhs}, {self.kind} {rhs}")

    def binary(self, op: str, lhs: str, rhs: str) -> str:
        """An arithmetic or bitwise operator.

        Raises:
            CodegenError: the dtype has no such instruction.
        """
        if op in _PLAIN:
            return self.writer.emit(f"{_PLAIN[op]} {self.kind} {lhs}, {rhs}")
        if op in ("min", "max"):
            sign = "u" if self.unsigned else "s"
            return self.writer.intrinsic(f"{sign}{op}", self.scalar, self.width, (lhs, rhs))
        if op in _DIVISIONS:
            return self._division(op, lhs, rhs)
        if op in ("shift_left", "shift_right"):
            return self._shift(op, lhs, rhs)
        if op == "pow":
            return self._power(lhs, rhs)
        raise CodegenError(f"{op!r} of {self.dtype} has no machine code")

    def _division(self, op: str, lhs: str, rhs: str) -> str:
        """Division instructions trap on what has no quotient: those lanes divide by 1."""
        known = literal_value(rhs)
        if known not in (None, 0, -1):
            return self._rounded(op, lhs, rhs, self._quotient(lhs, rhs))
        zero = self.const(0)
        if self.unsigned:
            special = self._op("icmp eq", rhs, zero)
        else:
            special = self._op("icmp ult", self._op("add", rhs, self.const(1)), self.const(2))
        safe = self.writer.emit_free(
            f"select {self.mask} {special}, {self.kind} {self.const(1)}, {self.kind} {rhs}"
        )
        result = self._rounded(op, lhs, safe, self._quotient(lhs, safe))
        if op in ("mod", "trunc_mod"):
            return result
        return self._pick(special, self._op("mul", lhs, rhs), result)

    def _quotient(self, lhs: str, rhs: str) -> str:
        return self.writer.emit(f"{'udiv' if self.unsigned else 'sdiv'} {self.kind} {lhs}, {rhs}")

    def _rounded(self, op: str, lhs: str, rhs: str, quotient: str) -> str:
        """The result of ``op``, from the quotient that is rounded toward zero."""
        if op == "trunc_div" or (op == "floordiv" and self.unsigned):
            return quotient
        rest = self._op("sub", lhs, self._op("mul", quotient, rhs))
        if op == "trunc_mod" or self.unsigned:
            return rest
        zero = self.const(0)
        nonzero = self._op("icmp ne", rest, zero)
        negative = self._op("icmp slt", self._op("xor", rest, rhs), zero)
        fix = self.writer.emit_free(f"and {self.mask} {nonzero}, {negative}")
        if op == "mod":
            return self._pick(fix, self._op("add", rest, rhs), rest)
        step = self.writer.emit_free(f"sext {self.mask} {fix} to {self.kind}")
        return self.writer.emit(f"add {self.kind} {quotient}, {step}")

    def _shift(self, op: str, lhs: str, rhs: str) -> str:
        """Amounts count as unsigned, so that negative ones are too large."""
        instruction = "shl" if op == "shift_left" else "lshr" if self.unsigned else "ashr"
        known = literal_value(rhs)
        if known is not None and 0 <= known < self.bits:
            return self.writer.emit(f"{instruction} {self.kind} {lhs}, {rhs}")
        most = self.const(self.bits - 1)
        amount = self.writer.intrinsic("umin", self.scalar, self.width, (rhs, most))
        shifted = self.writer.emit(f"{instruction} {self.kind} {lhs}, {amount}")
        if instruction == "ashr":
            return shifted
        inside = self._op("icmp ule", rhs, most)
        return self._pick(inside, shifted, self.const(0))

    def _power(self, lhs: str, rhs: str) -> str:
        """Squares and products over the exponent's bits; negative exponents give 0, except those
        of 1 and -1.
        """
        result, square = self.const(1), lhs
        bits = self.bits if self.unsigned else self.bits - 1
        for bit in range(bits):
            chosen = self._op("and", rhs, self.const(1 << bit))
            test = self._op("icmp ne", chosen, self.const(0))
            result = self._pick(test, self._op("mul", result, square), result)
            if bit + 1 < bits:
                square = self.writer.emit(f"mul {self.kind} {square}, {square}")
        if self.unsigned:
            return result
        negative = self._op("icmp slt", rhs, self.const(0))
        unit = self._op("icmp ult", self._op("add", lhs, self.const(1)), self.const(3))
        some = self._op("icmp ne", lhs, self.const(0))
        kept = self.writer.emit_free(f"and {self.mask} {unit}, {some}")
        inverse = self._pick(kept, result, self.const(0))
        return self._pick(negative, inverse, result)


def literal_value(operand: str) -> int | None:
    """The number that an operand is, in all lanes; None for values of the program."""
    text = operand.removeprefix("splat (").removesuffix(")").split()[-1]
    return int(text) if text.lstrip("-").isdigit() else None
