"""Sums and products of float64 with what their rounding leaves."""

from __future__ import annotations

from typing import Final

from codegen.llvm.functions.doubles import Doubles

LN2_REST: Final = 2.3190468138462996e-17  # the logarithm of 2 less the nearest float64


class FusedDoubles(Doubles):
    """Float64 on processors with fused multiply-adds.  Operands and results are SSA names."""

    def fma(self, lhs: str, rhs: str, addend: str) -> str:
        """``lhs * rhs + addend``, rounded once."""
        return self._intrinsic("fma", lhs, rhs, addend)

    def product(self, lhs: str, rhs: str) -> tuple[str, str]:
        """A product, and what its rounding leaves."""
        high = self.mul(lhs, rhs)
        return high, self.fma(lhs, rhs, self.neg(high))

    def ordered_sum(self, larger: str, smaller: str) -> tuple[str, str]:
        """A sum and what its rounding leaves, where the first is 0 or not the smaller one (Dekker,
        Numerische Mathematik 1971).
        """
        high = self.add(larger, smaller)
        return high, self.sub(smaller, self.sub(high, larger))

    def quotient(self, top: str, top_rest: str, bottom: str, bottom_rest: str) -> str:
        """A quotient of two sums, by what the quotient of their first terms leaves.

        Args:
            top: the large term of the dividend.
            top_rest: its small term.
            bottom: the large term of the divisor.
            bottom_rest: its small term.
        """
        inverse = self.div(self.const(1.0), bottom)
        result = self.mul(top, inverse)
        negative = self.neg(result)
        left = self.fma(negative, bottom_rest, top_rest)
        left = self.add(self.fma(negative, bottom, top), left)
        return self.fma(left, inverse, result)

    def sum(self, lhs: str, rhs: str) -> tuple[str, str]:
        """A sum and what its rounding leaves (Knuth, The Art of Computer Programming 4.2.2)."""
        high = self.add(lhs, rhs)
        second = self.sub(high, lhs)
        first = self.sub(high, second)
        return high, self.add(self.sub(lhs, first), self.sub(rhs, second))
