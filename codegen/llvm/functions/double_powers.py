"""Powers of float64, for processors with fused multiply-adds: within 1 unit in the last place.

Logarithms are sums of two float64 of some 66 bits, so that results that are float64 are exact.
"""

from __future__ import annotations

import math
from typing import Final

from codegen.llvm.functions.double_exponentials import EXP_RANGE, DoubleExponentials
from codegen.llvm.functions.doubles import LEAST_NORMAL

# (2 * atanh(s) / s - 2 - 2 / 3 * s**2) / s**4, of the square of s.
_ATANH: Final = (
    0.13168791965876608,
    0.13260018332344523,
    0.15386607676971895,
    0.18181787946843955,
    0.22222222474121922,
    0.2857142857039329,
    0.4000000000000153,
)
_THIRDS: Final = 2 / 3
_THIRDS_REST: Final = 3.700743415417188e-17
# The logarithm of 2 as the sum of two float64.  The first has 42 bits: products with exponents are
# exact.
_LN2_TOP: Final = 0.6931471805598903
_LN2_LEFT: Final = 5.497923018708371e-14
_SIGN: Final = -(2**63)


class DoublePowers(DoubleExponentials):
    """``pow``.  Operands and results are SSA names."""

    def pow(self, x: str, y: str) -> str:
        """``x**y``; C's rules for negative, zero, infinite, NaN."""
        return self.near_or_library("pow", DoublePowers._near_pow, x, y)

    def _near_pow(self, operands: tuple[str, ...]) -> tuple[str, str]:
        x, y = operands
        size = self.fabs(x)
        result = self.exp_of_sum(*self._times(*self._long_log(size), y))
        result = self._signed_power(x, y, self._power_of_zero(size, y, result))
        endless = self.test("uge", self.fabs(y), self.const(math.inf))
        return result, self.either(self._is_unusual(size), endless)

    def _power_of_zero(self, size: str, y: str, result: str) -> str:
        zero = self.const(0.0)
        power = self.pick(self.test("ogt", y, zero), zero, self.const(math.inf))
        power = self.pick(self.test("oeq", y, zero), self.const(1.0), power)
        return self.pick(self.test("oeq", size, zero), power, result)

    def _signed_power(self, x: str, y: str, result: str) -> str:
        """Negative bases: odd exponents negate, fractions are NaN."""
        whole, odd = self._is_whole(y)
        sign = self._op("and", self.int, self.bits(x), self.const_int(_SIGN))
        turned = self.from_bits(self._op("xor", self.int, self.bits(result), sign))
        result = self.pick(odd, turned, result)
        below = self.test("olt", x, self.const(0.0))
        signed = self.pick(whole, result, self.const(math.nan))
        return self.pick(below, signed, result)

    def _is_unusual(self, size: str) -> str:
        """Where a number is denormal, infinite or NaN."""
        small = self.test("olt", size, self.const(LEAST_NORMAL))
        denormal = self.both(small, self.test("ogt", size, self.const(0.0)))
        return self.either(denormal, self.test("uge", size, self.const(math.inf)))

    def _is_whole(self, y: str) -> tuple[str, str]:
        """Where y is an integer, and where it is an odd one."""
        half = self.mul(y, self.const(0.5))
        whole = self.test("oeq", self._intrinsic("floor", y), y)
        broken = self.test("une", self._intrinsic("floor", half), half)
        return whole, self.both(whole, broken)

    def _long_log(self, x: str) -> tuple[str, str]:
        """The logarithm of a normal number above 0 as the sum of two; of others, any numbers.

        It is ``e * ln 2 + 2 * s + s**3 * (2 / 3 + s**2 * polynomial)``; the polynomial is rounded
        to one number, everything else to two.
        """
        e, m = self.split(x)
        s, s_rest = self._slope(m)
        twice = self.add(s, s)
        square, rest = self.product(s, s)
        square_rest = self.fma(twice, s_rest, rest)
        factor, factor_rest = self.ordered_sum(
            self.const(_THIRDS), self.mul(square, self.horner(_ATANH, square))
        )
        factor_rest = self.add(factor_rest, self.const(_THIRDS_REST))
        ratio = self._long_product(square, square_rest, factor, factor_rest)
        cubic, cubic_rest = self._long_product(s, s_rest, *ratio)
        log_m, rest = self.ordered_sum(twice, cubic)
        rest = self.add(rest, self.fma(s_rest, self.const(2.0), cubic_rest))
        whole = self.mul(e, self.const(_LN2_TOP))
        high, low = self.ordered_sum(whole, log_m)
        return self.ordered_sum(high, self.add(low, self.fma(e, self.const(_LN2_LEFT), rest)))

    def _slope(self, m: str) -> tuple[str, str]:
        """``(m - 1) / (m + 1)`` as the sum of two."""
        one = self.const(1.0)
        top, bottom = self.sub(m, one), self.add(m, one)
        bottom_rest = self.sub(m, self.sub(bottom, one))
        inverse = self.div(one, bottom)
        s = self.mul(top, inverse)
        negative = self.neg(s)
        left = self.fma(negative, bottom_rest, self.fma(negative, bottom, top))
        return s, self.mul(left, inverse)

    def _long_product(self, x: str, x_rest: str, y: str, y_rest: str) -> tuple[str, str]:
        high, low = self.product(x, y)
        return high, self.fma(x_rest, y, self.fma(x, y_rest, low))

    def _times(self, high: str, low: str, y: str) -> tuple[str, str]:
        """The sum times y, limited to where exp still changes."""
        product, rest = self.product(high, y)
        limited = self._clamp(product, *EXP_RANGE)
        inside = self.test("oeq", limited, product)
        return limited, self.pick(inside, self.fma(low, y, rest), self.const(0.0))
