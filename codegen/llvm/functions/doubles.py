"""Steps of functions in float64, of those of float32 and of float64 alike."""

from __future__ import annotations

from typing import ClassVar, Final

from codegen.llvm.functions.operations import FloatOperations

LN2: Final = 0.6931471805599453
LOG2_E: Final = 1.4426950408889634
ROUND: Final = 6755399441055744.0  # 1.5 * 2**52: the lowest bits hold the integer
FRACTION_BITS: Final = 52
LEAST_NORMAL: Final = 2.0**-1022
_FRACTION: Final = 2**52 - 1
_TOP_FRACTION: Final = 0x3FE6A09E667F3BCD  # the bits of the square root of 1/2
# Exponents are made positive, and then the fraction of a number in [2**52, 2**53).
_BIAS: Final = 1024
_COUNT_BITS: Final = 0x4330000000000000
_COUNT_ZERO: Final = 2.0**52 + _BIAS


class Doubles(FloatOperations):
    """Float64 of one vector width.  Operands and results are SSA names."""

    dtype: ClassVar[str] = "float64"
    integer: ClassVar[str] = "i64"

    def nearest_integer(self, x: str, factor: float) -> tuple[str, str]:
        """The integer nearest to ``x * factor``, which is below 2**51, as a float64 and in the
        lowest bits of an int64.
        """
        shifted = self.fma(x, self.const(factor), self.const(ROUND))
        return self.sub(shifted, self.const(ROUND)), self.bits(shifted)

    def split(self, x: str) -> tuple[str, str]:
        """The exponent of a normal number above 0, a float64, and its fraction, between the square
        roots of 1/2 and 2; of others, any finite numbers.
        """
        top = self.const_int(_TOP_FRACTION)
        offset = self._op("sub", self.int, self.bits(x), top)
        fraction = self._op("and", self.int, offset, self.const_int(_FRACTION))
        m = self.from_bits(self._op("add", self.int, fraction, top))
        positive = self._op("add", self.int, offset, self.const_int(_BIAS << FRACTION_BITS))
        count = self._op("lshr", self.int, positive, self.const_int(FRACTION_BITS))
        count = self._op("or", self.int, count, self.const_int(_COUNT_BITS))
        return self.sub(self.from_bits(count), self.const(_COUNT_ZERO)), m

    def raised(self, x: str, n: str) -> str:
        """``x * 2**n`` where both are normal numbers; n is in the lowest bits of an int64."""
        exponent = self._op("shl", self.int, n, self.const_int(FRACTION_BITS))
        return self.from_bits(self._op("add", self.int, self.bits(x), exponent))

    def is_odd(self, n: str) -> str:
        """Where the lowest bits of an int64 hold an odd integer."""
        last = self._op("and", self.int, n, self.const_int(1))
        return self._op("icmp ne", self.int, last, self.const_int(0))

    def turned(self, quarters: str, sine: str, cosine: str) -> str:
        """The sine of the angle that many quarter turns on."""
        bits = self.bits(self.pick(self.is_odd(quarters), cosine, sine))
        half = self._op("and", self.int, quarters, self.const_int(2))
        sign = self._op("shl", self.int, half, self.const_int(62))
        return self.from_bits(self._op("xor", self.int, bits, sign))
