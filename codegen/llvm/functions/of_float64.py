"""Elementary functions of float64 in LLVM IR.

Square roots and roundings are instructions.  With fused multiply-adds everything else is code for
vectors, within 1.8 units in the last place; the modules of the parts say what each has.
Their coefficients are those of Remez's algorithm, found with 78 digits and rounded.

Without them it is the C library's function lane by lane: errors of glibc's functions are below 1
unit in the last place for exp, expm1, log, log1p, pow, sin, cos, tan, asin, acos, atan and erf,
below 2 for the hyperbolic functions and their inverses; rsqrt and sigmoid are within 2.
"""

from __future__ import annotations

from codegen.llvm.functions import libm
from codegen.llvm.functions.double_angles import DoubleAngles
from codegen.llvm.functions.double_errors import DoubleErrors
from codegen.llvm.functions.double_logarithms import DoubleLogarithms
from codegen.llvm.functions.double_powers import DoublePowers
from codegen.llvm.functions.double_remainders import DoubleRemainders
from codegen.llvm.functions.doubles import Doubles


class Float64Lanes(Doubles):
    """The functions for one vector width (0: scalars).  Operands and results are SSA names."""

    def _call(self, symbol: str, *operands: str) -> str:
        return libm.call(self.writer, symbol, self.scalar, self.width, operands)

    def floor(self, x: str) -> str:
        """Largest integer not above x."""
        return self._intrinsic("floor", x)

    def ceil(self, x: str) -> str:
        """Smallest integer not below x."""
        return self._intrinsic("ceil", x)

    def trunc(self, x: str) -> str:
        """The integer part."""
        return self._intrinsic("trunc", x)

    def round(self, x: str) -> str:
        """The nearest integer, the even one of two."""
        return self._intrinsic("rint", x)

    def sigmoid(self, x: str) -> str:
        """``1 / (1 + exp(-x))``, through exp(-|x|) so that small results keep their digits."""
        return self._share(x, self.exp(self.neg(self.fabs(x))))

    def pow(self, x: str, y: str) -> str:
        """``x**y``; C's rules for negative, zero, infinite, NaN."""
        return self._call("pow", x, y)

    def fmod(self, x: str, y: str) -> str:
        """The exact remainder, with the sign of x."""
        return self._call("fmod", x, y)

    def exp(self, x: str) -> str:
        """The exponential."""
        return self._call("exp", x)

    def expm1(self, x: str) -> str:
        """``exp(x) - 1``."""
        return self._call("expm1", x)

    def log(self, x: str) -> str:
        """Natural logarithm."""
        return self._call("log", x)

    def log1p(self, x: str) -> str:
        """``log(1 + x)``."""
        return self._call("log1p", x)

    def erf(self, x: str) -> str:
        """Gauss error function."""
        return self._call("erf", x)

    def sin(self, x: str) -> str:
        """Sine."""
        return self._call("sin", x)

    def cos(self, x: str) -> str:
        """Cosine."""
        return self._call("cos", x)

    def tan(self, x: str) -> str:
        """Tangent."""
        return self._call("tan", x)

    def asin(self, x: str) -> str:
        """Inverse sine."""
        return self._call("asin", x)

    def acos(self, x: str) -> str:
        """Inverse cosine."""
        return self._call("acos", x)

    def atan(self, x: str) -> str:
        """Inverse tangent."""
        return self._call("atan", x)

    def sinh(self, x: str) -> str:
        """Hyperbolic sine."""
        return self._call("sinh", x)

    def cosh(self, x: str) -> str:
        """Hyperbolic cosine."""
        return self._call("cosh", x)

    def tanh(self, x: str) -> str:
        """Hyperbolic tangent."""
        return self._call("tanh", x)

    def asinh(self, x: str) -> str:
        """Inverse hyperbolic sine."""
        return self._call("asinh", x)

    def acosh(self, x: str) -> str:
        """Inverse hyperbolic cosine."""
        return self._call("acosh", x)

    def atanh(self, x: str) -> str:
        """Inverse hyperbolic tangent."""
        return self._call("atanh", x)


class FusedFloat64Lanes(
    DoublePowers, DoubleErrors, DoubleAngles, DoubleLogarithms, DoubleRemainders, Float64Lanes
):
    """The functions on processors with fused multiply-adds: all but those that are instructions
    are polynomials, and give the same bits for all widths.
    """
