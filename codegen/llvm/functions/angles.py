"""Sine, cosine, tangent and their inverses of float32 as polynomials in LLVM IR.

Largest errors, in units in the last place: sin, cos and tan 0.7 (computed in float64), atan 2, asin
and acos 4.
Angles of 1.6 million and more are left to the C library, whose errors are below 1.
"""

from __future__ import annotations

import math
from typing import Final

from codegen.llvm.functions.branches import Branches
from codegen.llvm.functions.in_double import DoubleSteps

# Pi / 2 as the sum of two float64.  The first has 33 bits, so that products with the counts below
# are exact.
_QUARTER: Final = 1.5707963267341256
_QUARTER_REST: Final = 6.077100506506192e-11
_MOST_QUARTERS: Final = 2**20
_NEAR: Final = _MOST_QUARTERS * math.pi / 2
# Of the square: sine and cosine up to an eighth of a turn, the inverse tangent up to 1.  Relative
# errors are nearly the least.
_SINE: Final = (-1.9517233886290342e-4, 8.332177996635437e-3, -0.16666655242443085, 1.0)
_COSINE: Final = (
    2.4433080398011953e-5,
    -1.3887315290048718e-3,
    4.166664555668831e-2,
    -0.5,
    1.0,
)
_ARC: Final = (
    2.92064599e-3,
    -1.63677447e-2,
    4.32115644e-2,
    -7.55218938e-2,
    1.06659934e-1,
    -1.42110527e-1,
    1.99937731e-1,
    -3.33331525e-1,
)


class AngleLanes(Branches, DoubleSteps):
    """Sine, cosine, tangent and their inverses.  Operands and results are SSA names."""

    def sin(self, x: str) -> str:
        """Sine."""
        return self.near_or_library("sinf", AngleLanes._near_sin, x)

    def cos(self, x: str) -> str:
        """Cosine."""
        return self.near_or_library("cosf", AngleLanes._near_cos, x)

    def tan(self, x: str) -> str:
        """Tangent."""
        return self.near_or_library("tanf", AngleLanes._near_tan, x)

    def atan(self, x: str) -> str:
        """Inverse tangent: above 1, a quarter of a turn less that of the reciprocal."""
        size, one = self.fabs(x), self.const(1.0)
        steep = self.test("ogt", size, one)
        ratio = self.pick(steep, self.div(one, size), size)
        square = self.mul(ratio, ratio)
        angle = self.fma(self.mul(self.horner(_ARC, square), square), ratio, ratio)
        beyond = self.sub(self.const(math.pi / 2), angle)
        return self.copysign(self.pick(steep, beyond, angle), x)

    def asin(self, x: str) -> str:
        """Inverse sine, as the angle of a triangle whose longest side is 1."""
        one = self.const(1.0)
        other = self.mul(self.sub(one, x), self.add(one, x))
        return self.atan(self.div(x, self.sqrt(other)))

    def acos(self, x: str) -> str:
        """Inverse cosine: twice the angle whose tangent is the root of (1 - x) / (1 + x)."""
        one = self.const(1.0)
        half = self.atan(self.sqrt(self.div(self.sub(one, x), self.add(one, x))))
        return self.add(half, half)

    def _near_sin(self, operands: tuple[str, ...]) -> tuple[str, str]:
        (x,) = operands
        return self.narrowed(self.doubles.turned(*self._within_quarter(x))), self._is_far(x)

    def _near_cos(self, operands: tuple[str, ...]) -> tuple[str, str]:
        (x,) = operands
        quarters, sine, cosine = self._within_quarter(x)
        next_quarter = self._op("add", self.doubles.int, quarters, self.doubles.const_int(1))
        return self.narrowed(self.doubles.turned(next_quarter, sine, cosine)), self._is_far(x)

    def _near_tan(self, operands: tuple[str, ...]) -> tuple[str, str]:
        (x,) = operands
        quarters, sine, cosine = self._within_quarter(x)
        odd = self.doubles.is_odd(quarters)
        negative = self.doubles.neg(cosine)
        top, bottom = self.doubles.pick(odd, negative, sine), self.doubles.pick(odd, sine, cosine)
        return self.narrowed(self.doubles.div(top, bottom)), self._is_far(x)

    def _is_far(self, x: str) -> str:
        return self.test("oge", self.fabs(x), self.const(_NEAR))

    def _within_quarter(self, x: str) -> tuple[str, str, str]:
        """Quarter turns nearest to x, in the lowest bits of an int64, with the sine and the cosine
        of what is left, float64.
        """
        value = self.widened(x)
        count, quarters = self.doubles.nearest_integer(value, 2 / math.pi)
        angle = self.doubles.fma(count, self.doubles.const(-_QUARTER), value)
        angle = self.doubles.fma(count, self.doubles.const(-_QUARTER_REST), angle)
        square = self.doubles.mul(angle, angle)
        sine = self.doubles.mul(self.doubles.horner(_SINE, square), angle)  # of -0: -0
        return quarters, sine, self.doubles.horner(_COSINE, square)
