"""Sine, cosine, tangent and their inverses of float32 as polynomials in LLVM IR.

Largest errors, in units in the last place: sin, cos and tan 0.7 (computed in float64), atan 2, asin
and acos 4.
Angles of 1.6 million and more are left to the C library, whose errors are below 1.
"""

from __future__ import annotations

import math
from typing import Final

from codegen.llvm.functions.branches import BranchedLanes

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


class AngleLanes(BranchedLanes):
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
        return self.narrowed(self._turned(*self._within_quarter(x))), self._is_far(x)

    def _near_cos(self, operands: tuple[str, ...]) -> tuple[str, str]:
        (x,) = operands
        quarters, sine, cosine = self._within_quarter(x)
        next_quarter = self._op("add", self.long, quarters, self.const_long(1))
        return self.narrowed(self._turned(next_quarter, sine, cosine)), self._is_far(x)

    def _near_tan(self, operands: tuple[str, ...]) -> tuple[str, str]:
        (x,) = operands
        quarters, sine, cosine = self._within_quarter(x)
        odd = self._is_odd(quarters)
        negative = self.writer.emit(f"fneg {self.double} {cosine}")
        top, bottom = self.pick_double(odd, negative, sine), self.pick_double(odd, sine, cosine)
        return self.narrowed(self.op_double("fdiv", top, bottom)), self._is_far(x)

    def _is_far(self, x: str) -> str:
        return self.test("oge", self.fabs(x), self.const(_NEAR))

    def _within_quarter(self, x: str) -> tuple[str, str, str]:
        """Quarter turns nearest to x, in the lowest bits of an int64, with the sine and the cosine
        of what is left, float64.
        """
        value = self.widened(x)
        turns = self.op_double("fmul", value, self.const_double(2 / math.pi))
        count, quarters = self.nearest_integer(turns)
        angle = self.fma_double(count, self.const_double(-_QUARTER), value)
        angle = self.fma_double(count, self.const_double(-_QUARTER_REST), angle)
        square = self.op_double("fmul", angle, angle)
        sine = self.op_double("fmul", self.horner_double(_SINE, square), angle)  # of -0: -0
        return quarters, sine, self.horner_double(_COSINE, square)

    def _turned(self, quarters: str, sine: str, cosine: str) -> str:
        """The sine of the angle that many quarter turns on."""
        bits = self.double_bits(self.pick_double(self._is_odd(quarters), cosine, sine))
        half = self._op("and", self.long, quarters, self.const_long(2))
        sign = self._op("shl", self.long, half, self.const_long(62))
        return self.from_double_bits(self._op("xor", self.long, bits, sign))

    def _is_odd(self, quarters: str) -> str:
        last = self._op("and", self.long, quarters, self.const_long(1))
        return self._op("icmp ne", self.long, last, self.const_long(0))
