"""Elementary functions with what AVX-512 adds: tables in registers, scaling by powers of two.

erf and tanh are ``x * g(|x|)``, with a polynomial for g around each of 32 equally spaced points: a
lookup for each coefficient takes the place of an exponential and a second polynomial.  exp is a
power of two all along.  Errors are within 2 units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from codegen.llvm.float_calls import FloatLanes
from codegen.llvm.math_calls import EXP_RANGE, ROUND
from codegen.llvm.values import literal

_POINTS: Final = 32  # lanes of two registers
REGISTER_LANES: Final = 16
_AS_SET: Final = 4  # rounding as the thread's control register says
_INTEGER: Final = 8388608.0  # 2**23: adding it rounds to an integer, which the lowest bits hold
# The binary logarithm of e as the sum of two float32.
_LOG2_E: Final = 1.4426950216293335
_LOG2_E_REST: Final = 1.925963033500011e-08
# 2**r between -1/2 and 1/2, interpolated at Chebyshev's points of (2**r - 1) / r.
_POWER: Final = (
    1.54532623e-4,
    1.33909786e-3,
    9.61808208e-3,
    5.55035695e-2,
    2.40226507e-1,
    6.93147182e-1,
    1.0,
)


@dataclass(frozen=True, slots=True)
class RatioTable:
    """Coefficients of ``f(x) / x`` around the points 0, step, 2 * step ...

    Attributes:
        name: of the function.
        step: between two points; a float32.
        most: where f rounds to 1 in float32: beyond it f is taken as there.
        coefficients: [degree + 1][points], highest degree first.
    """

    name: str
    step: float
    most: float
    coefficients: tuple[tuple[float, ...], ...]


def table_of(
    name: str, function: Callable[[float], float], at_zero: float, step: float, degree: int
) -> RatioTable:
    """The table of an odd function that goes to 1.

    Args:
        name: of the function.
        function: in float64.
        at_zero: its derivative there.
        step: between two points, a float32.
        degree: of the polynomials.
    """

    def ratio(x: float) -> float:
        return function(x) / x if x else at_zero

    columns = []
    for point in range(_POINTS):
        centre = point * step
        around = np.vectorize(lambda u, c=centre: ratio(abs(c + u)), otypes=[float])
        domain = [-step / 2 if point else 0.0, step / 2]
        found = Chebyshev.interpolate(around, degree, domain).convert(kind=Polynomial).coef
        columns.append([*found, *[0.0] * (degree + 1 - len(found))])
    rows = tuple(tuple(row) for row in np.transpose(columns)[::-1].tolist())
    return RatioTable(name, step, (_POINTS - 0.52) * step, rows)


@cache
def _erf() -> RatioTable:
    return table_of("erf", math.erf, 2 / math.sqrt(math.pi), 0.125, 4)


@cache
def _tanh() -> RatioTable:
    return table_of("tanh", math.tanh, 1.0, 0.296875, 5)


class WideLanes(FloatLanes):
    """The functions for one vector width of a processor with registers of 16 lanes.

    All widths give the same bits: what is left of a vector is computed as the vector is.
    """

    def erf(self, x: str) -> str:
        """The error function."""
        return self._odd(_erf(), x)

    def tanh(self, x: str) -> str:
        """Hyperbolic tangent."""
        return self._odd(_tanh(), x)

    def exp(self, x: str) -> str:
        """``2**r * 2**n``: multiply-adds leave r exact but for what x times log2(e) rounds."""
        x = self._clamp(x, *EXP_RANGE)
        shifted = self.fma(x, self.const(_LOG2_E), self.const(ROUND))
        n = self.sub(shifted, self.const(ROUND))
        less = self.writer.emit(f"fneg {self.float} {n}")
        r = self.fma(x, self.const(_LOG2_E), less)
        r = self.fma(x, self.const(_LOG2_E_REST), r)
        return self._scaled(self.horner(_POWER, r), shifted, n)

    def _scaled(self, p: str, shifted: str, n: str) -> str:
        if self.width != REGISTER_LANES:
            return super()._scaled(p, shifted, n)
        name = "llvm.x86.avx512.mask.scalef.ps.512"
        kinds = f"{self.float}, {self.float}, {self.float}, i16, i32"
        self.writer.declare(name, f"{self.float} {{}}({kinds})")
        vectors = f"{self.float} {p}, {self.float} {n}, {self.float} poison"
        return self.writer.emit(f"call {self.float} @{name}({vectors}, i16 -1, i32 {_AS_SET})")

    def _odd(self, table: RatioTable, x: str) -> str:
        size, most = self.fabs(x), self.const(table.most)
        size = self.pick(self.test("ogt", size, most), most, size)
        shifted = self.fma(size, self.const(1 / table.step), self.const(_INTEGER))
        point = self.sub(shifted, self.const(_INTEGER))
        u = self.fma(point, self.const(-table.step), size)
        result, *others = (self._row(table, k, shifted) for k in range(len(table.coefficients)))
        for row in others:
            result = self.fma(result, u, row)
        result, one = self.mul(result, size), self.const(1.0)
        return self.copysign(self.pick(self.test("ogt", result, one), one, result), x)

    def _row(self, table: RatioTable, k: int, shifted: str) -> str:
        """A coefficient of every lane's polynomial; its number is in the lowest bits."""
        values = table.coefficients[k]
        if self.width == REGISTER_LANES:
            low, high = (self._vector(values[n : n + REGISTER_LANES]) for n in (0, REGISTER_LANES))
            name = "llvm.x86.avx512.vpermi2var.ps.512"
            self.writer.declare(name, f"{self.float} {{}}({self.float}, {self.int}, {self.float})")
            operands = f"{self.float} {low}, {self.int} {self.bits(shifted)}, {self.float} {high}"
            return self.writer.emit(f"call {self.float} @{name}({operands})")
        name = f"{table.name}.table.{k}"
        kind = f"[{_POINTS} x float]"
        body = ", ".join(f"float {literal(value, 'float32')}" for value in values)
        self.writer.define(name, f"private unnamed_addr constant {kind} [{body}], align 64")
        place = self._op("and", self.int, self.bits(shifted), self.const_int(_POINTS - 1))
        lanes = f"<{self.width} x ptr>" if self.width else "ptr"
        at = self.writer.emit(f"getelementptr float, ptr @{name}, {self.int} {place}")
        if not self.width:
            return self.writer.emit(f"load float, ptr {at}, align 4")
        return self._gathered(lanes, at)

    def _gathered(self, pointers: str, at: str) -> str:
        name = f"llvm.masked.gather.v{self.width}f32.v{self.width}p0"
        signature = f"{self.float} {{}}({pointers}, i32, {self.mask}, {self.float})"
        self.writer.declare(name, signature)
        all_lanes = self._splat("i1", "true")
        operands = f"{pointers} {at}, i32 4, {self.mask} {all_lanes}, {self.float} poison"
        return self.writer.emit(f"call {self.float} @{name}({operands})")

    def _vector(self, values: tuple[float, ...]) -> str:
        return "<" + ", ".join(f"float {literal(value, 'float32')}" for value in values) + ">"
