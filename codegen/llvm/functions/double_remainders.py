"""Remainders of float64, exact, for processors with fused multiply-adds."""

from __future__ import annotations

import math
from typing import Final

from codegen.llvm.functions.branches import Branches
from codegen.llvm.functions.fused import FusedDoubles

_MOST_QUOTIENT: Final = 2.0**53


class DoubleRemainders(Branches, FusedDoubles):
    """``fmod``.  Operands and results are SSA names."""

    def fmod(self, x: str, y: str) -> str:
        """The exact remainder, with the sign of x."""
        return self.near_or_library("fmod", DoubleRemainders._near_fmod, x, y)

    def _near_fmod(self, operands: tuple[str, ...]) -> tuple[str, str]:
        """``x - n * y``, by the integer part of the rounded quotient.

        Integers below 2**53 are float64, and rounding is monotone, so that n is right or 1 too
        large.  What is left is a multiple of the last place of y, or of x, and not larger than y:
        one fused multiply-add gives it exactly, and the sum with y, where it is below 0, is exact
        for the same reason.
        """
        x, y = operands
        top, bottom = self.fabs(x), self.fabs(y)
        quotient = self.div(top, bottom)
        far = self.test("uge", quotient, self.const(_MOST_QUOTIENT))
        # The quotient is 0 there, and 0 times infinity would be NaN.
        far = self.either(far, self.test("oeq", bottom, self.const(math.inf)))
        whole = self._intrinsic("trunc", quotient)
        rest = self.fma(self.neg(whole), bottom, top)
        below = self.test("olt", rest, self.const(0.0))
        rest = self.pick(below, self.add(rest, bottom), rest)
        return self.copysign(rest, x), far
