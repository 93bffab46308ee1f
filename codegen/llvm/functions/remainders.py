"""Remainders of float32, exact: by a quotient in float64 where that holds all of its digits."""

from __future__ import annotations

import math
from typing import Final

from codegen.llvm.functions.branches import BranchedLanes

# Quotients of two float32 below it are not rounded up to an integer in float64: they are 2**-24 or
# more below it, relatively or absolutely, and half a unit in the last place is at most 2**-26.  An
# integer part has 28 bits and a divisor 24, so that their product is exact, and so is what is left.
_MOST_QUOTIENT: Final = 2.0**28


class RemainderLanes(BranchedLanes):
    """``fmod``.  Operands and results are SSA names."""

    def fmod(self, x: str, y: str) -> str:
        """The exact remainder, with the sign of x."""
        return self.near_or_library("fmodf", RemainderLanes._near_fmod, x, y)

    def _near_fmod(self, operands: tuple[str, ...]) -> tuple[str, str]:
        x, y = operands
        top, bottom = self.widened(x), self.widened(y)
        quotient = self.op_double("fdiv", top, bottom)
        size = self.writer.intrinsic("fabs", "double", self.width, (quotient,))
        far = self.test_double("uge", size, self.const_double(_MOST_QUOTIENT))
        # The quotient is 0 there, and 0 times infinity would be NaN.
        endless = self.test("oeq", self.fabs(y), self.const(math.inf))
        far = self._op("or", self.mask, far, endless)
        quotient = self.pick_double(far, self.const_double(0.0), quotient)
        whole = self.writer.emit(f"fptosi {self.double} {quotient} to {self.int}")
        whole = self.writer.emit(f"sitofp {self.int} {whole} to {self.double}")
        negative = self.writer.emit(f"fneg {self.double} {whole}")
        rest = self.narrowed(self.fma_double(negative, bottom, top))
        return self.copysign(rest, x), far
