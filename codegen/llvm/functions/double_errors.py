"""The error function of float64, for processors with fused multiply-adds.

Its largest error is 1.3 units in the last place.
"""

from __future__ import annotations

from typing import Final

from codegen.llvm.functions.double_exponentials import DoubleExponentials

# erf(x) / x - 1, of the square of x, up to 1.
_NEAR: Final = (
    -7.801189557567462e-10,
    1.3722975493826882e-08,
    -1.6209175426580397e-07,
    1.6447517567641667e-06,
    -1.4924744649931631e-05,
    0.00012055295319521354,
    -0.0008548325989653283,
    0.005223977607422288,
    -0.026866170643276035,
    0.11283791670945252,
    -0.3761263890318355,
    0.12837916709551256,
)
# log(1 - erf(x)) between 1 and 6; errors are least of 1 - erf(x) itself.
_FAR: Final = (
    1.039096780493541e-12,
    -4.751916344982934e-11,
    1.017089937663272e-09,
    -1.3522759954144142e-08,
    1.2483537979439865e-07,
    -8.452209204962656e-07,
    4.301910240417086e-06,
    -1.642194599655323e-05,
    4.477120171341802e-05,
    -6.975323766314502e-05,
    -4.5951115401752276e-05,
    0.0006428270286730828,
    -0.0017709180769496088,
    0.0002822222471205123,
    0.019076959685816984,
    -0.10274664480815672,
    -0.6366287029493783,
    -1.1283772825675888,
    -1.8436798688451823e-07,
)
_MOST: Final = 6.0  # beyond it, the result is 1


class DoubleErrors(DoubleExponentials):
    """``erf``.  Operands and results are SSA names."""

    def erf(self, x: str) -> str:
        """``x + x * polynomial`` below 1, ``1 - exp(polynomial)`` above."""
        return self.apart("erf", DoubleErrors._erf, x)

    def _erf(self, operands: tuple[str, ...]) -> str:
        (x,) = operands
        size = self._clamp(self.fabs(x), 0.0, _MOST)
        near = self.fma(self.horner(_NEAR, self.mul(size, size)), x, x)
        rest = self.normal_exp(self.horner(_FAR, size))
        far = self.copysign(self.sub(self.const(1.0), rest), x)
        return self.pick(self.test("olt", size, self.const(1.0)), near, far)
