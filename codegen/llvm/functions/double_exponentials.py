"""Exponentials of float64 and what is made of them, for processors with fused multiply-adds.

Largest errors, in units in the last place: exp 1, expm1 1.2, sigmoid 1.5, tanh 1, sinh 1.8,
cosh 1.5.

``x = n * ln 2 + r``, with a polynomial for exp(r) whose error is least between -ln(2) / 2 and
ln(2) / 2.
"""

from __future__ import annotations

from typing import Final

from codegen.llvm.functions.branches import Branches
from codegen.llvm.functions.doubles import FRACTION_BITS, LN2, LOG2_E, ROUND
from codegen.llvm.functions.fused import LN2_REST, FusedDoubles

# (exp(r) - 1 - r) / r**2: for exp itself, and for exp less 1.
_EXP: Final = (
    2.5117886367619747e-08,
    2.7631308421100356e-07,
    2.7557216223382364e-06,
    2.4801489868196048e-05,
    0.00019841269917467055,
    0.0013888888947082326,
    0.008333333333307168,
    0.04166666666651519,
    0.166666666666667,
    0.5000000000000012,
)
_EXPM1: Final = (
    2.0926914970330378e-09,
    2.5112262998183903e-08,
    2.7557233454578263e-07,
    2.7557234171197775e-06,
    2.4801587373626353e-05,
    0.00019841269897123725,
    0.0013888888888858501,
    0.008333333333316713,
    0.04166666666666673,
    0.16666666666666685,
    0.5,
)
# Beyond it, results are 0 or infinite; -1 or infinite; 1.
EXP_RANGE: Final = (-746.0, 710.0)
_EXPM1_RANGE: Final = (-40.0, 710.0)
_TANH_RANGE: Final = (0.0, 20.0)
_OWN_EXPM1: Final = 2.0**-54  # what is smaller is its own expm1 and tanh
_OWN_SINH: Final = 2.0**-28
_FAR: Final = 709.0  # half of exp may be finite where exp is not
_EXPONENT_ZERO: Final = 1023
# The lowest bits of a number next to it hold the exponent of a power of two.
_ROUND_EXPONENT: Final = ROUND + _EXPONENT_ZERO


class DoubleExponentials(Branches, FusedDoubles):
    """Exponentials.  Operands and results are SSA names."""

    def exp(self, x: str) -> str:
        """The exponential: e**r times 2**n."""
        n, _, exact, low = self._reduced(self._clamp(x, *EXP_RANGE))
        return self._scaled(self._exp(exact, low), n)

    def normal_exp(self, x: str, shift: int = 0) -> str:
        """``2**shift * exp(x)`` where both are normal numbers; NaN of NaN, whatever its bits."""
        _, bits, exact, low = self._reduced(x)
        exponent = self._op("add", self.int, bits, self.const_int(_EXPONENT_ZERO + shift))
        return self.mul(self._exp(exact, low), self._power_of_two(exponent))

    def expm1(self, x: str) -> str:
        """``2**n * (exp(r) - 1) + (2**n - 1)``, by halves, since 2**1024 is infinite.

        What is so small that it is its own result keeps its sign and its last digits.
        """
        half, _ = self._half_of_expm1(self._clamp(x, *_EXPM1_RANGE))
        small = self.test("olt", self.fabs(x), self.const(_OWN_EXPM1))
        return self.pick(small, x, self.add(half, half))

    def sigmoid(self, x: str) -> str:
        """``1 / (1 + exp(-x))``."""
        zero, one, (least, _) = self.const(0.0), self.const(1.0), EXP_RANGE
        size = self._clamp(self.fabs(x), 0.0, -least)
        e = self.exp_of_sum(self.neg(size), zero)
        bottom, rest = self.ordered_sum(one, e)
        top = self.pick(self.test("olt", x, zero), e, one)
        return self.quotient(top, zero, bottom, rest)

    def tanh(self, x: str) -> str:
        """``(exp(2|x|) - 1) / (exp(2|x|) + 1)``."""
        size = self._clamp(self.fabs(x), *_TANH_RANGE)
        half, rest = self._half_of_expm1(self.add(size, size))
        bottom, bottom_rest = self.sum(half, self.const(1.0))
        result = self.quotient(half, rest, bottom, self.add(bottom_rest, rest))
        small = self.test("olt", size, self.const(_OWN_EXPM1))
        return self.copysign(self.pick(small, size, result), x)

    def sinh(self, x: str) -> str:
        """``(e + e / (e + 1)) / 2``, where e is exp(|x|) - 1."""
        return self.near_or_library("sinh", DoubleExponentials._near_sinh, x)

    def cosh(self, x: str) -> str:
        """``(e + 1 / e) / 2``, where e is exp(|x|)."""
        return self.near_or_library("cosh", DoubleExponentials._near_cosh, x)

    def _scaled(self, p: str, n: str) -> str:
        """``p * 2**n`` in two steps, so that denormal results are rounded once."""
        magic = self.const(_ROUND_EXPONENT)
        first = self.fma(n, self.const(0.5), magic)
        second = self.add(self.sub(n, self.sub(first, magic)), magic)
        for shifted in (first, second):
            p = self.mul(p, self._power_of_two(self.bits(shifted)))
        return p

    def exp_of_sum(self, high: str, low: str) -> str:
        """The exponential of a sum, whose large terms are kept with what their rounding leaves."""
        n, _, exact, more = self._reduced(high)
        r, rest = self.ordered_sum(exact, self.add(low, more))
        total, left = self.ordered_sum(self.const(1.0), r)
        more = self.fma(self.mul(r, r), self.horner(_EXP, r), self.fma(r, rest, rest))
        return self._scaled(self.add(total, self.add(left, more)), n)

    def _power_of_two(self, exponent: str) -> str:
        """The power whose biased exponent is in the lowest bits."""
        bits = self._op("shl", self.int, exponent, self.const_int(FRACTION_BITS))
        return self.from_bits(bits)

    def _reduced(self, x: str) -> tuple[str, str, str, str]:
        """n, n in the lowest bits of an int64, and r as the sum of two."""
        n, bits = self.nearest_integer(x, LOG2_E)
        return n, bits, self.fma(n, self.const(-LN2), x), self.mul(n, self.const(-LN2_REST))

    def _exp(self, exact: str, low: str) -> str:
        r = self.add(exact, low)
        more = self.fma(self.mul(r, r), self.horner(_EXP, r), low)
        return self.add(self.add(exact, more), self.const(1.0))

    def _half_of_expm1(self, x: str) -> tuple[str, str]:
        """``(exp(x) - 1) / 2`` as the sum of two."""
        _, bits, exact, low = self._reduced(x)
        r, rest = self.ordered_sum(exact, low)
        more = self.fma(self.mul(r, r), self.horner(_EXPM1, r), rest)
        before = self._op("add", self.int, bits, self.const_int(_EXPONENT_ZERO - 1))
        half = self._power_of_two(before)
        total, left = self.ordered_sum(self.sub(half, self.const(0.5)), self.mul(half, r))
        return self.ordered_sum(total, self.fma(half, more, left))

    def _near_sinh(self, operands: tuple[str, ...]) -> tuple[str, str]:
        (x,) = operands
        size = self.fabs(x)
        half, rest = self._half_of_expm1(size)
        bottom = self.add(self.add(half, half), self.const(1.0))
        more = self.add(self.div(half, bottom), rest)
        result = self.copysign(self.add(half, more), x)
        small = self.test("olt", size, self.const(_OWN_SINH))
        return self.pick(small, x, result), self._may_overflow(size)

    def _near_cosh(self, operands: tuple[str, ...]) -> tuple[str, str]:
        (x,) = operands
        size = self.fabs(x)
        half = self.normal_exp(size, -1)
        return self.add(half, self.div(self.const(0.25), half)), self._may_overflow(size)

    def _may_overflow(self, size: str) -> str:
        return self.test("oge", size, self.const(_FAR))
