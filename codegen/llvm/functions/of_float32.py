"""All elementary functions of float32.

Largest errors of those of this file, in units in the last place: expm1 2.5, log1p 4.
"""

from __future__ import annotations

import math
from typing import Final

from codegen.llvm.functions.angles import AngleLanes
from codegen.llvm.functions.hyperbolic import HyperbolicLanes
from codegen.llvm.functions.lanes import ROUND_BITS
from codegen.llvm.functions.powers import PowerLanes
from codegen.llvm.functions.remainders import RemainderLanes

_EXPM1_RANGE: Final = (-18.0, 89.0)  # beyond it, the result is -1 or infinite
_OWN_RESULT: Final = 2.0**-25  # what is smaller is its own expm1


class Float32Lanes(PowerLanes, AngleLanes, HyperbolicLanes, RemainderLanes):
    """The functions for one vector width (0: scalars).  Operands and results are SSA names."""

    def expm1(self, x: str) -> str:
        """``2**n * (exp(r) - 1) + (2**n - 1)``, by halves, since 2**128 is infinite.

        What is so small that it is its own result keeps its sign and its last digits.
        """
        p, shifted, _ = self._reduced(self._clamp(x, *_EXPM1_RANGE))
        before = self._op("sub", self.int, self.bits(shifted), self.const_int(ROUND_BITS + 1))
        half = self._power_of_two(before)
        result = self.fma(half, p, self.sub(half, self.const(0.5)))
        small = self.test("olt", self.fabs(x), self.const(_OWN_RESULT))
        return self.pick(small, x, self.add(result, result))

    def log1p(self, x: str) -> str:
        """``log(u) * x / (u - 1)`` for the rounded sum ``u = 1 + x``: the quotient takes back what
        was rounded (Goldberg, ACM Computing Surveys 1991, theorem 4).
        """
        one, infinite = self.const(1.0), self.const(math.inf)
        u = self.add(x, one)
        result = self.mul(self.log(u), self.div(x, self.sub(u, one)))
        result = self.pick(self.test("oeq", u, infinite), u, result)
        return self.pick(self.test("oeq", u, one), x, result)
