"""Hyperbolic functions of float32 and their inverses, through exp and log in float64: within 1 unit
in the last place.
"""

from __future__ import annotations

import math
from typing import Final

from codegen.llvm.functions.in_double import DoubleSteps

_LARGEST: Final = 95.0  # beyond it, half of exp is infinite in float32
_OWN_RESULT: Final = 2.0**-13  # what is smaller is its own result, to 0.1 units in the last place


class HyperbolicLanes(DoubleSteps):
    """Hyperbolic functions and their inverses.  Operands and results are SSA names."""

    def sinh(self, x: str) -> str:
        """Hyperbolic sine."""
        return self._signed(x, self.narrowed(self._half_of_exponentials("fsub", x)))

    def cosh(self, x: str) -> str:
        """Hyperbolic cosine."""
        result = self.narrowed(self._half_of_exponentials("fadd", x))
        return self.pick(self.test("uno", x, x), x, result)

    def asinh(self, x: str) -> str:
        """``log(|x| + sqrt(x**2 + 1))``."""
        size = self.widened(self.fabs(x))
        root = self.doubles.sqrt(self.doubles.fma(size, size, self.doubles.const(1.0)))
        result = self.narrowed(self.log_double(self.doubles.add(size, root)))
        return self._signed(x, self._endless(x, result))

    def acosh(self, x: str) -> str:
        """``log(x + sqrt(x**2 - 1))``, NaN below 1."""
        value = self.widened(x)
        root = self.doubles.sqrt(self.doubles.fma(value, value, self.doubles.const(-1.0)))
        result = self.narrowed(self.log_double(self.doubles.add(value, root)))
        inside = self.test("oge", x, self.const(1.0))
        return self.pick(inside, self._endless(x, result), self.const(math.nan))

    def atanh(self, x: str) -> str:
        """``log((1 + |x|) / (1 - |x|)) / 2``, infinite at 1, NaN beyond."""
        size, one = self.widened(self.fabs(x)), self.doubles.const(1.0)
        top, bottom = self.doubles.add(one, size), self.doubles.sub(one, size)
        logarithm = self.log_double(self.doubles.div(top, bottom))
        result = self.narrowed(self.doubles.mul(logarithm, self.doubles.const(0.5)))
        end = self.test("oeq", self.fabs(x), self.const(1.0))
        result = self.pick(end, self.const(math.inf), result)
        outside = self.test("ogt", self.fabs(x), self.const(1.0))
        return self._signed(x, self.pick(outside, self.const(math.nan), result))

    def _half_of_exponentials(self, op: str, x: str) -> str:
        """``exp(|x|)`` and its reciprocal, added or subtracted, halved."""
        grown = self.exp_double(self.widened(self._clamp(self.fabs(x), 0.0, _LARGEST)))
        shrunk = self.doubles.div(self.doubles.const(1.0), grown)
        both = self._op(op, self.doubles.float, grown, shrunk)
        return self.doubles.mul(both, self.doubles.const(0.5))

    def _endless(self, x: str, result: str) -> str:
        """Of an infinite x: infinity."""
        infinity = self.const(math.inf)
        return self.pick(self.test("oeq", self.fabs(x), infinity), infinity, result)

    def _signed(self, x: str, result: str) -> str:
        """``result`` with the sign of x; what is small is its own, and NaN stays."""
        small = self.test("ult", self.fabs(x), self.const(_OWN_RESULT))
        return self.pick(small, x, self.copysign(result, x))
