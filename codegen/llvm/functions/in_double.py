"""Steps of functions of float32 that are computed in float64, where nothing cancels that matters.

Their errors are some 2**-40 of the result, far below what float32 shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from codegen.llvm.functions.lanes import Lanes
from codegen.llvm.values import literal, vector_type
from codegen.llvm.writer import Writer

# Of the square of s = (m - 1) / (m + 1), which is below 0.172: log(m) is 2 * atanh(s).
_ATANH: Final = (2 / 13, 2 / 11, 2 / 9, 2 / 7, 2 / 5, 2 / 3, 2.0)
# Taylor's series of exp, up to half of the logarithm of 2.
_EXP_DOUBLE: Final = (
    1 / 3628800,
    1 / 362880,
    1 / 40320,
    1 / 5040,
    1 / 720,
    1 / 120,
    1 / 24,
    1 / 6,
    0.5,
    1.0,
    1.0,
)
_LN2_DOUBLE: Final = 0.6931471805599453
_LOG2_E: Final = 1.4426950408889634
_ROUND_DOUBLE: Final = 6755399441055744.0  # 1.5 * 2**52: the lowest bits hold the integer
_TOP_FRACTION: Final = 0x3FE6A09E667F3BCD  # the bits of the square root of 1/2


class DoubleSteps(Lanes):
    """Float64 of as many lanes.  Operands and results are SSA names."""

    def __init__(self, writer: Writer, width: int, rounding: bool = True) -> None:
        super().__init__(writer, width, rounding)
        self.double = vector_type("double", width)
        self.long = vector_type("i64", width)

    def const_double(self, value: float) -> str:
        """A float64 literal."""
        return self._splat("double", literal(value, "float64"))

    def const_long(self, value: int) -> str:
        """An int64 literal."""
        return self._splat("i64", str(value))

    def widened(self, x: str) -> str:
        """A float32 as a float64."""
        return self.writer.emit(f"fpext {self.float} {x} to {self.double}")

    def narrowed(self, x: str) -> str:
        """A float64 rounded to float32."""
        return self.writer.emit(f"fptrunc {self.double} {x} to {self.float}")

    def op_double(self, op: str, lhs: str, rhs: str) -> str:
        """An operator on two float64, such as ``fadd``."""
        return self._op(op, self.double, lhs, rhs)

    def pick_double(self, test: str, lhs: str, rhs: str) -> str:
        """``pick`` of two float64."""
        return self.pick(test, lhs, rhs, self.double)

    def test_double(self, condition: str, lhs: str, rhs: str) -> str:
        """A comparison of two float64, such as ``olt``."""
        return self.op_double(f"fcmp {condition}", lhs, rhs)

    def fma_double(self, lhs: str, rhs: str, addend: str) -> str:
        """``lhs * rhs + addend`` of float64."""
        return self.writer.intrinsic("fmuladd", "double", self.width, (lhs, rhs, addend))

    def sqrt_double(self, x: str) -> str:
        """The square root of a float64."""
        return self.writer.intrinsic("sqrt", "double", self.width, (x,))

    def horner_double(self, coefficients: Sequence[float], x: str) -> str:
        """A polynomial of a float64, highest coefficient first."""
        result = self.const_double(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.fma_double(result, x, self.const_double(coefficient))
        return result

    def nearest_integer(self, x: str) -> tuple[str, str]:
        """The integer nearest to a float64 below 2**51, as a float64 and in the lowest bits of an
        int64.
        """
        magic = self.const_double(_ROUND_DOUBLE)
        shifted = self.op_double("fadd", x, magic)
        return self.op_double("fsub", shifted, magic), self.double_bits(shifted)

    def double_bits(self, x: str) -> str:
        """The bits of a float64 as an int64."""
        return self.writer.emit_free(f"bitcast {self.double} {x} to {self.long}")

    def from_double_bits(self, x: str) -> str:
        """The float64 with these bits."""
        return self.writer.emit_free(f"bitcast {self.long} {x} to {self.double}")

    def log_double(self, x: str) -> str:
        """The logarithm of a float64 that is normal, finite and above 0; of others, any number."""
        bits = self.double_bits(x)
        offset = self._op("sub", self.long, bits, self.const_long(_TOP_FRACTION))
        exponent = self._op("ashr", self.long, offset, self.const_long(52))
        shift = self._op("shl", self.long, exponent, self.const_long(52))
        m = self.from_double_bits(self._op("sub", self.long, bits, shift))
        one = self.const_double(1.0)
        s = self.op_double("fdiv", self.op_double("fsub", m, one), self.op_double("fadd", m, one))
        log_m = self.op_double("fmul", self.horner_double(_ATANH, self.op_double("fmul", s, s)), s)
        whole = self.writer.emit(f"trunc {self.long} {exponent} to {self.int}")
        e = self.writer.emit(f"sitofp {self.int} {whole} to {self.double}")
        return self.fma_double(e, self.const_double(_LN2_DOUBLE), log_m)

    def exp_double(self, x: str) -> str:
        """The exponential of a float64 between -700 and 700; of others, NaN too, any number."""
        n, bits = self.nearest_integer(self.op_double("fmul", x, self.const_double(_LOG2_E)))
        r = self.fma_double(n, self.const_double(-_LN2_DOUBLE), x)
        exponent = self._op("shl", self.long, bits, self.const_long(52))
        p = self.double_bits(self.horner_double(_EXP_DOUBLE, r))
        return self.from_double_bits(self._op("add", self.long, p, exponent))
