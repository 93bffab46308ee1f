"""Sine, cosine, tangent and their inverses of float64, for processors with fused multiply-adds.

Largest errors, in units in the last place: sin, cos, tan 1, asin, acos 1.3, atan 1.6.  Angles of
1.6 billion and more are left to the C library.
"""

from __future__ import annotations

import math
from typing import Final

from codegen.llvm.functions.branches import Branches
from codegen.llvm.functions.fused import FusedDoubles

# Pi / 2 as the sum of three float64.
_QUARTER: Final = 1.5707963267948966
_QUARTER_REST: Final = 6.123233995736766e-17
_QUARTER_LEFT: Final = -1.4973849048591698e-33
_MOST_QUARTERS: Final = 2**30
_NEAR: Final = _MOST_QUARTERS * math.pi / 2
_OWN_SINE: Final = 2.0**-28  # what is smaller is its own sine and tangent
# Of the square, up to an eighth of a turn: (sin(x) - x) / x**3, (cos(x) - 1 + x**2 / 2) / x**4.
_SINE: Final = (
    1.5896930734277973e-10,
    -2.505076067340369e-08,
    2.755731371022455e-06,
    -0.00019841269829868707,
    0.008333333333322505,
    -0.16666666666666632,
)
_COSINE: Final = (
    -1.1360038928360134e-11,
    2.0875731479398374e-09,
    -2.7557314418773426e-07,
    2.4801587289739713e-05,
    -0.0013888888888874597,
    0.0416666666666666,
)
# (atan(x) - x) / x**3, of the square, up to 1.
_ARC: Final = (
    1.3590311524166993e-05,
    -0.00015582392131564043,
    0.0008483179715021826,
    -0.002933321772331306,
    0.007291159241664509,
    -0.014035287822813372,
    0.022129199696206785,
    -0.030022610278659004,
    0.0367177603838931,
    -0.04222957312216184,
    0.04723788756977238,
    -0.05253959423594418,
    0.05880629298685888,
    -0.06666421630538719,
    0.0769228206971901,
    -0.09090907202856284,
    0.11111111018987822,
    -0.1428571428301344,
    0.19999999999959905,
    -0.33333333333333126,
)
# (asin(x) - x) / x**3, of the square, up to 1/4.
_ARCSINE: Final = (
    0.032487156115671816,
    -0.02075975077130975,
    0.02152767495816862,
    0.0037854012817619596,
    0.010757745746724303,
    0.011403268145166316,
    0.01398023751878026,
    0.01735166590768111,
    0.022372211612395224,
    0.03038194284529417,
    0.04464285717122681,
    0.07499999999975178,
    0.16666666666666738,
)


class DoubleAngles(Branches, FusedDoubles):
    """Sine, cosine, tangent and their inverses.  Operands and results are SSA names."""

    def sin(self, x: str) -> str:
        """Sine."""
        return self.near_or_library("sin", DoubleAngles._near_sin, x)

    def cos(self, x: str) -> str:
        """Cosine."""
        return self.near_or_library("cos", DoubleAngles._near_cos, x)

    def tan(self, x: str) -> str:
        """Tangent."""
        return self.near_or_library("tan", DoubleAngles._near_tan, x)

    def atan(self, x: str) -> str:
        """Inverse tangent: above 1, a quarter of a turn less that of the reciprocal."""
        return self.apart("atan", DoubleAngles._atan, x)

    def asin(self, x: str) -> str:
        """Inverse sine: from 1/2 on, a quarter of a turn less twice that of sqrt((1 - x) / 2)."""
        return self.apart("asin", DoubleAngles._asin, x)

    def acos(self, x: str) -> str:
        """Inverse cosine: the rest of a quarter of a turn."""
        return self.apart("acos", DoubleAngles._acos, x)

    def _near_sin(self, operands: tuple[str, ...]) -> tuple[str, str]:
        (x,) = operands
        quarters, sine, cosine = self._within_quarter(x)
        result = self.turned(quarters, self.add(*sine), self.add(*cosine))
        return self._own(x, result), self._is_far_angle(x)

    def _near_cos(self, operands: tuple[str, ...]) -> tuple[str, str]:
        (x,) = operands
        quarters, sine, cosine = self._within_quarter(x)
        next_quarter = self._op("add", self.int, quarters, self.const_int(1))
        return self.turned(next_quarter, self.add(*sine), self.add(*cosine)), self._is_far_angle(x)

    def _near_tan(self, operands: tuple[str, ...]) -> tuple[str, str]:
        """The quotient of the rounded sine and cosine, and what they and it leave."""
        (x,) = operands
        quarters, long_sine, long_cosine = self._within_quarter(x)
        odd = self.is_odd(quarters)
        sine, sine_rest = self.ordered_sum(*long_sine)
        cosine, cosine_rest = self.ordered_sum(*long_cosine)
        top, bottom = self.pick(odd, self.neg(cosine), sine), self.pick(odd, sine, cosine)
        top_rest = self.pick(odd, self.neg(cosine_rest), sine_rest)
        bottom_rest = self.pick(odd, sine_rest, cosine_rest)
        result = self.quotient(top, top_rest, bottom, bottom_rest)
        return self._own(x, result), self._is_far_angle(x)

    def _own(self, x: str, result: str) -> str:
        small = self.test("olt", self.fabs(x), self.const(_OWN_SINE))
        return self.pick(small, x, result)

    def _is_far_angle(self, x: str) -> str:
        return self.test("oge", self.fabs(x), self.const(_NEAR))

    def _within_quarter(self, x: str) -> tuple[str, tuple[str, str], tuple[str, str]]:
        """Quarter turns nearest to x, in the lowest bits of an int64, with the sine and the cosine
        of what is left, as sums whose first terms are the larger ones.
        """
        count, quarters = self.nearest_integer(x, 2 / math.pi)
        t, rest = self._less_quarters(x, count)
        square, one = self.mul(t, t), self.const(1.0)
        half = self.mul(square, self.const(0.5))
        w = self.sub(one, half)
        sine = self.fma(self.mul(t, square), self.horner(_SINE, square), self.mul(rest, w))
        higher = self.neg(self.mul(t, rest))
        higher = self.fma(self.mul(square, square), self.horner(_COSINE, square), higher)
        cosine = self.add(self.sub(self.sub(one, w), half), higher)
        return quarters, (t, sine), (w, cosine)

    def _less_quarters(self, x: str, count: str) -> tuple[str, str]:
        """``x - count * pi / 2`` as the sum of two.

        The first difference is exact: it is below 1 in size and a multiple of 2**-53, since x and
        the first part of pi / 2 are, but where the count is 0.
        """
        exact = self.fma(count, self.const(-_QUARTER), x)
        high, low = self.product(count, self.const(-_QUARTER_REST))
        t, rest = self.sum(exact, high)
        return t, self.add(rest, self.fma(count, self.const(-_QUARTER_LEFT), low))

    def _atan(self, operands: tuple[str, ...]) -> str:
        (x,) = operands
        size, one = self.fabs(x), self.const(1.0)
        steep = self.test("ogt", size, one)
        ratio = self.pick(steep, self.div(one, size), size)
        square = self.mul(ratio, ratio)
        more = self.mul(self.mul(ratio, square), self.horner(_ARC, square))
        angle = self.pick(steep, self._quarter_less(ratio, more), self.add(ratio, more))
        return self.copysign(angle, x)

    def _quarter_less(self, angle: str, more: str) -> str:
        """``pi / 2 - (angle + more)``, with all digits of pi / 2."""
        high, left = self.ordered_sum(self.const(_QUARTER), self.neg(angle))
        return self.add(high, self.sub(left, self.sub(more, self.const(_QUARTER_REST))))

    def _arcsine(self, size: str) -> tuple[str, str, str]:
        """Where ``size`` is 1/2 or more; and ``asin`` of it, or of sqrt((1 - size) / 2) there, as
        the sum of two.
        """
        half = self.const(0.5)
        steep = self.test("oge", size, half)
        square = self.mul(self.sub(self.const(1.0), size), half)
        square = self.pick(steep, square, self.mul(size, size))
        side = self.pick(steep, self.sqrt(square), size)
        return steep, side, self.mul(self.mul(side, square), self.horner(_ARCSINE, square))

    def _asin(self, operands: tuple[str, ...]) -> str:
        (x,) = operands
        steep, side, more = self._arcsine(self.fabs(x))
        beyond = self._quarter_less(self.add(side, side), self.add(more, more))
        return self.copysign(self.pick(steep, beyond, self.add(side, more)), x)

    def _acos(self, operands: tuple[str, ...]) -> str:
        (x,) = operands
        steep, side, more = self._arcsine(self.fabs(x))
        near_one = self.both(steep, self.test("ogt", x, self.const(0.0)))
        signed_side = self.pick(steep, side, self.copysign(side, x))
        signed_more = self.pick(steep, more, self.copysign(more, x))
        turned = self._quarter_less(signed_side, signed_more)
        result = self.pick(near_one, self.add(side, more), turned)
        return self.pick(steep, self.add(result, result), result)
