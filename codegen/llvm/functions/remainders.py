"""Remainders of float32, exact: by a quotient in float64 where that holds all of its digits."""

from __future__ import annotations

import math
from typing import Final

from codegen.llvm.functions.branches import Branches
from codegen.llvm.functions.in_double import DoubleSteps

# Quotients of two float32 below it are not rounded up to an integer in float64: they are 2**-24 or
# more below it, relatively or absolutely, and half a unit in the last place is at most 2**-26.  An
# integer part has 28 bits and a divisor 24, so that their product is exact, and so is what is left.
_MOST_QUOTIENT: Final = 2.0**28


class RemainderLanes(Branches, DoubleSteps):
    """``fmod``.  Operands and results are SSA names."""

    def fmod(self, x: str, y: str) -> str:
        """The exact remainder, with the sign of x."""
        return self.near_or_library("fmodf", RemainderLanes._near_fmod, x, y)

    def _near_fmod(self, operands: tuple[str, ...]) -> tuple[str, str]:
        x, y = operands
        top, bottom = self.widened(x), self.widened(y)
        quotient = self.doubles.div(top, bottom)
        size = self.doubles.fabs(quotient)
        far = self.doubles.test("uge", size, self.doubles.const(_MOST_QUOTIENT))
        # The quotient is 0 there, and 0 times infinity would be NaN.
        endless = self.test("oeq", self.fabs(y), self.const(math.inf))
        far = self.either(far, endless)
        quotient = self.doubles.pick(far, self.doubles.const(0.0), quotient)
        whole = self.writer.emit(f"fptosi {self.doubles.float} {quotient} to {self.int}")
        whole = self.writer.emit(f"sitofp {self.int} {whole} to {self.doubles.float}")
        negative = self.doubles.neg(whole)
        rest = self.narrowed(self.doubles.fma(negative, bottom, top))
        return self.copysign(rest, x), far
