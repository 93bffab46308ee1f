"""Elementary functions of float32 as polynomials in LLVM IR, for scalars and vectors alike.

Largest errors against float64 over the whole range (units in the last place, results in the
denormal range counted in absolute terms of 2**-149):

    exp 2, log 2, sqrt 0.5, rsqrt 1.5, tanh 3, erf 3, sigmoid 3; floor and ceil are exact.

Infinities, NaN and denormals are as in the C library.  Without FMA tanh, erf, sigmoid have 4.
"""

from __future__ import annotations

from typing import Final, Self

from codegen.llvm.functions.operations import FloatOperations
from codegen.llvm.writer import Writer

_LN2_HIGH: Final = 0.693359375
_LN2_LOW: Final = -2.12194440e-4
ROUND: Final = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer
ROUND_BITS: Final = 0x4B400000
# Beyond it, the exponential is zero or infinite.
EXP_RANGE: Final = (-104.0, 89.0)
_EXP: Final = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)
_LOG: Final = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_TANH: Final = (
    -5.70498872745e-3,
    2.06390887954e-2,
    -5.37397155531e-2,
    1.33314422036e-1,
    -3.33332819422e-1,
)
_ERF_SMALL: Final = (
    -5.96761703e-4,
    4.99119423e-3,
    -2.67681349e-2,
    1.12819925e-1,
    -3.76125336e-1,
    1.28379166e-1,
)
_ERF_LARGE: Final = (
    -1.72853470e-5,
    3.83197126e-4,
    -3.88396438e-3,
    2.42546219e-2,
    -1.06777877e-1,
    -6.34846687e-1,
    -1.28717512e-1,
)


class Lanes(FloatOperations):
    """The functions for one vector width (0: scalars).  Operands and results are SSA names."""

    def __init__(self, writer: Writer, width: int, rounding: bool = True) -> None:
        super().__init__(writer, width)
        self.rounding = rounding

    def into(self, writer: Writer) -> Self:
        """The same operations, written elsewhere."""
        return type(self)(writer, self.width, self.rounding)

    def _power_of_two(self, n: str) -> str:
        """``2**n`` for int32 n in [-126, 127]."""
        biased = self._op("add", self.int, n, self.const_int(127))
        return self.from_bits(self._op("shl", self.int, biased, self.const_int(23)))

    def exp(self, x: str) -> str:
        """The exponential: e**r times 2**n, scaled in two steps so that denormals round once."""
        p, shifted, n = self._reduced(self._clamp(x, *EXP_RANGE))
        return self._scaled(self.add(p, self.const(1.0)), shifted, n)

    def _reduced(self, x: str) -> tuple[str, str, str]:
        """``exp(r) - 1``, ``x = n * ln 2 + r``; n with and without what rounded it."""
        shifted = self.fma(x, self.const(1.44269504088896341), self.const(ROUND))
        n = self.sub(shifted, self.const(ROUND))
        r = self.fma(n, self.const(-_LN2_HIGH), x)
        r = self.fma(n, self.const(-_LN2_LOW), r)
        return self.fma(self.horner(_EXP, r), self.mul(r, r), r), shifted, n

    def _scaled(self, p: str, shifted: str, n: str) -> str:
        """``p * 2**n``; the integer sits in the low bits of the shifted number, too."""
        whole = self._op("sub", self.int, self.bits(shifted), self.const_int(ROUND_BITS))
        half = self._op("ashr", self.int, whole, self.const_int(1))
        rest = self._op("sub", self.int, whole, half)
        return self.mul(self.mul(p, self._power_of_two(half)), self._power_of_two(rest))

    def log(self, x: str) -> str:
        """Natural logarithm: exponent times ln 2 plus the logarithm of a mantissa near 1."""
        small = self.test("olt", x, self.const(1.17549435e-38))
        scaled = self.pick(small, self.mul(x, self.const(8388608.0)), x)
        bits = self.bits(scaled)
        offset = self._op("sub", self.int, bits, self.const_int(0x3F3504F3))
        exponent = self._op("ashr", self.int, offset, self.const_int(23))
        shift = self._op("shl", self.int, exponent, self.const_int(23))
        m = self.sub(self.from_bits(self._op("sub", self.int, bits, shift)), self.const(1.0))
        e = self.writer.emit(f"sitofp {self.int} {exponent} to {self.float}")
        e = self.pick(small, self.sub(e, self.const(23.0)), e)
        square = self.mul(m, m)
        y = self.mul(self.mul(self.horner(_LOG, m), m), square)
        y = self.fma(e, self.const(_LN2_LOW), y)
        y = self.fma(square, self.const(-0.5), y)
        result = self.fma(e, self.const(_LN2_HIGH), self.add(m, y))
        infinity = self.test("oeq", x, self.const(float("inf")))
        result = self.pick(infinity, x, result)
        zero = self.test("oeq", x, self.const(0.0))
        result = self.pick(zero, self.const(float("-inf")), result)
        invalid = self.test("ult", x, self.const(0.0))
        return self.pick(invalid, self.const(float("nan")), result)

    def sigmoid(self, x: str) -> str:
        """``1 / (1 + exp(-x))``, through exp(-|x|) so that small results keep their digits."""
        return self._share(x, self.exp(self.neg(self.fabs(x))))

    def tanh(self, x: str) -> str:
        """Odd polynomial below 0.625, ``1 - 2 / (exp(2|x|) + 1)`` above."""
        size = self.fabs(x)
        square = self.mul(x, x)
        near = self.fma(self.mul(self.horner(_TANH, square), square), x, x)
        bottom = self.add(self.exp(self.add(size, size)), self.const(1.0))
        far = self.sub(self.const(1.0), self.div(self.const(2.0), bottom))
        small = self.test("olt", size, self.const(0.625))
        return self.copysign(self.pick(small, near, far), x)  # of zeros, too

    def erf(self, x: str) -> str:
        """Odd polynomial below 0.9277, ``1 - exp(polynomial)`` above."""
        size = self._clamp(self.fabs(x), 0.0, 4.0)
        square = self.mul(x, x)
        near = self.fma(self.horner(_ERF_SMALL, square), x, x)
        negated = self.neg(size)
        power = self.fma(self.horner(_ERF_LARGE, size), size, negated)
        far = self.copysign(self.sub(self.const(1.0), self.exp(power)), x)
        small = self.test("olt", size, self.const(0.927734375))
        return self.pick(small, near, far)

    def floor(self, x: str) -> str:
        """Largest integer not above x."""
        return self._round("floor", "ogt", -1.0, x)

    def ceil(self, x: str) -> str:
        """Smallest integer not below x."""
        return self._round("ceil", "olt", 1.0, x)

    def _round(self, name: str, beyond: str, step: float, x: str) -> str:
        if self.rounding:
            return self._intrinsic(name, x)
        inside, near = self._converted(x)
        wrong = self.test(beyond, near, x)
        moved = self.pick(wrong, self.add(near, self.const(step)), near)
        return self.pick(inside, self.copysign(moved, x), x)

    def trunc(self, x: str) -> str:
        """The integer part; -0 stays what it is."""
        if self.rounding:
            return self._intrinsic("trunc", x)
        inside, near = self._converted(x)
        return self.pick(inside, self.copysign(near, x), x)

    def _converted(self, x: str) -> tuple[str, str]:
        """Where x is below 2**23 in size, and its integer part there, by way of an int32."""
        inside = self.test("olt", self.fabs(x), self.const(8388608.0))
        safe = self.pick(inside, x, self.const(0.0))
        whole = self.writer.emit(f"fptosi {self.float} {safe} to {self.int}")
        return inside, self.writer.emit(f"sitofp {self.int} {whole} to {self.float}")

    def round(self, x: str) -> str:
        """The nearest integer, the even one of two."""
        if self.rounding:
            return self._intrinsic("rint", x)
        size = self.fabs(x)
        inside = self.test("olt", size, self.const(8388608.0))
        near = self.sub(self.add(size, self.const(8388608.0)), self.const(8388608.0))
        return self.pick(inside, self.copysign(near, x), x)
