"""Logarithms of float64 and inverse hyperbolic functions, for processors with fused multiply-adds.

Largest errors, in units in the last place: log and log1p 1, asinh and atanh 1.5, acosh 1.8.
"""

from __future__ import annotations

import math
from typing import Final

from codegen.llvm.functions.branches import Branches
from codegen.llvm.functions.doubles import LEAST_NORMAL, LN2
from codegen.llvm.functions.fused import LN2_REST, FusedDoubles

# (2 * atanh(s) / s - 2) / s**2, of the square of s = (m - 1) / (m + 1); its error is least where m
# is between the square roots of 1/2 and 2.
_ATANH: Final = (
    0.14793750751769302,
    0.15314288016937816,
    0.18183554177910619,
    0.22222198790201675,
    0.28571428739980465,
    0.3999999999942747,
    0.6666666666666732,
)
_MANTISSA_BITS: Final = 54
_OWN_LOG1P: Final = 2.0**-54  # what is smaller is its own log1p
_OWN_ASINH: Final = 2.0**-28
_FAR: Final = 2.0**500  # its square is finite


class DoubleLogarithms(Branches, FusedDoubles):
    """Logarithms.  Operands and results are SSA names."""

    def log(self, x: str) -> str:
        """Natural logarithm."""
        small = self.test("olt", x, self.const(LEAST_NORMAL))
        scaled = self.pick(small, self.mul(x, self.const(2.0**_MANTISSA_BITS)), x)
        e, m = self.split(scaled)
        e = self.pick(small, self.sub(e, self.const(float(_MANTISSA_BITS))), e)
        return self._outside(x, self._log(e, m))

    def log1p(self, x: str) -> str:
        """``log(1 + x)``."""
        return self._log1p_of_sum(x, self.const(0.0))

    def asinh(self, x: str) -> str:
        """``log1p(|x| + x**2 / (1 + sqrt(1 + x**2)))``."""
        return self.near_or_library("asinh", DoubleLogarithms._near_asinh, x)

    def acosh(self, x: str) -> str:
        """``log1p(t + sqrt(2 * t + t**2))`` of ``t = x - 1``."""
        return self.near_or_library("acosh", DoubleLogarithms._near_acosh, x)

    def atanh(self, x: str) -> str:
        """``log1p(2 * |x| + 2 * x**2 / (1 - |x|)) / 2``, infinite at 1, NaN beyond."""
        size, one = self.fabs(x), self.const(1.0)
        twice = self.add(size, size)
        more = self.div(self.mul(twice, size), self.sub(one, size))
        result = self.mul(self._log1p_of_sum(*self.sum(twice, more)), self.const(0.5))
        small = self.test("olt", size, self.const(_OWN_ASINH))
        result = self.pick(small, size, result)
        end = self.test("oeq", size, one)
        result = self.pick(end, self.const(math.inf), result)
        outside = self.test("ogt", size, one)
        return self.copysign(self.pick(outside, self.const(math.nan), result), x)

    def _log(self, e: str, m: str, rest: str = "") -> str:
        """``e * ln 2 + log(m) + rest``, with log(m) as ``f - (f**2 / 2 - s * (f**2 / 2 + R))``,
        whose large terms are exact or small: ``f = m - 1``, ``R = 2 * atanh(s) / s - 2``.
        """
        f = self.sub(m, self.const(1.0))
        s = self.div(f, self.add(m, self.const(1.0)))
        square = self.mul(s, s)
        half = self.mul(self.mul(f, f), self.const(0.5))
        ratio = self.fma(square, self.horner(_ATANH, square), half)
        low = self.mul(e, self.const(LN2_REST))
        low = self.fma(s, ratio, self.add(low, rest) if rest else low)
        return self.fma(e, self.const(LN2), self.sub(f, self.sub(half, low)))

    def _outside(self, x: str, result: str) -> str:
        """The logarithms of infinity, 0, negative numbers and NaN."""
        infinity = self.test("oeq", x, self.const(math.inf))
        result = self.pick(infinity, x, result)
        zero = self.test("oeq", x, self.const(0.0))
        result = self.pick(zero, self.const(-math.inf), result)
        invalid = self.test("ult", x, self.const(0.0))
        return self.pick(invalid, self.const(math.nan), result)

    def _log1p_of_sum(self, x: str, low: str) -> str:
        return self.apart("log1p", DoubleLogarithms._log1p, x, low)

    def _log1p(self, operands: tuple[str, ...]) -> str:
        """``log(u) + rest / u``, where u is the sum 1 + x + low and rest what its rounding
        leaves.
        """
        x, low = operands
        u, rest = self.sum(self.const(1.0), x)
        more = self.div(self.add(rest, low), u)
        result = self._outside(u, self._log(*self.split(u), more))
        small = self.test("olt", self.fabs(x), self.const(_OWN_LOG1P))
        return self.pick(small, x, result)

    def _near_asinh(self, operands: tuple[str, ...]) -> tuple[str, str]:
        (x,) = operands
        size, one = self.fabs(x), self.const(1.0)
        square = self.mul(size, size)
        root = self.sqrt(self.fma(size, size, one))
        more = self.div(square, self.add(one, root))
        result = self.copysign(self._log1p_of_sum(*self.ordered_sum(size, more)), x)
        small = self.test("olt", size, self.const(_OWN_ASINH))
        return self.pick(small, x, result), self.test("oge", size, self.const(_FAR))

    def _near_acosh(self, operands: tuple[str, ...]) -> tuple[str, str]:
        (x,) = operands
        t = self.sub(x, self.const(1.0))
        root = self.sqrt(self.fma(t, t, self.add(t, t)))
        result = self._log1p_of_sum(*self.ordered_sum(root, t))
        inside = self.test("oge", x, self.const(1.0))
        result = self.pick(inside, result, self.const(math.nan))
        return result, self.test("oge", x, self.const(_FAR))
