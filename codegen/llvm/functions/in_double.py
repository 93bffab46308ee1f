"""Steps of functions of float32 that are computed in float64, where nothing cancels that matters.

Their errors are some 2**-40 of the result, far below what float32 shows.
"""

from __future__ import annotations

from typing import Final

from codegen.llvm.functions.doubles import LN2, LOG2_E, Doubles
from codegen.llvm.functions.lanes import Lanes
from codegen.llvm.writer import Writer

# Of the square of s = (m - 1) / (m + 1), which is below 0.172: log(m) is 2 * atanh(s).
_ATANH: Final = (2 / 13, 2 / 11, 2 / 9, 2 / 7, 2 / 5, 2 / 3, 2.0)
# Taylor's series of exp, up to half of the logarithm of 2.
_EXP_DOUBLE: Final = (
    1 / 3628800,
    1 / 362880,
    1 / 40320,
    1 / 5040,
    1 / 720,
    1 / 120,
    1 / 24,
    1 / 6,
    0.5,
    1.0,
    1.0,
)


class DoubleSteps(Lanes):
    """Functions of float32 with float64 of as many lanes.  Operands and results are SSA names."""

    def __init__(self, writer: Writer, width: int, rounding: bool = True) -> None:
        super().__init__(writer, width, rounding)
        self.doubles = Doubles(writer, width)

    def widened(self, x: str) -> str:
        """A float32 as a float64."""
        return self.writer.emit(f"fpext {self.float} {x} to {self.doubles.float}")

    def narrowed(self, x: str) -> str:
        """A float64 rounded to float32."""
        return self.writer.emit(f"fptrunc {self.doubles.float} {x} to {self.float}")

    def log_double(self, x: str) -> str:
        """The logarithm of a float64 that is normal, finite and above 0; of others, any number."""
        doubles = self.doubles
        e, m = doubles.split(x)
        one = doubles.const(1.0)
        s = doubles.div(doubles.sub(m, one), doubles.add(m, one))
        log_m = doubles.mul(doubles.horner(_ATANH, doubles.mul(s, s)), s)
        return doubles.fma(e, doubles.const(LN2), log_m)

    def exp_double(self, x: str) -> str:
        """The exponential of a float64 between -700 and 700; of others, NaN too, any number."""
        doubles = self.doubles
        n, bits = doubles.nearest_integer(x, LOG2_E)
        r = doubles.fma(n, doubles.const(-LN2), x)
        return doubles.raised(doubles.horner(_EXP_DOUBLE, r), bits)
