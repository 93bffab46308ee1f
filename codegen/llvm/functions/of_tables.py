"""Elementary functions with what AVX-512 adds: tables in registers, scaling by powers of two.

erf and tanh are ``x * g(|x|)``, with a polynomial for g around each of 32 equally spaced points: a
lookup for each coefficient takes the place of an exponential and a second polynomial.  exp is a
power of two all along, of 16 parts of an octave.  Errors are within 2 units in the last place.
Functions of float64 gain the scaling only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from codegen.llvm.functions.lanes import EXP_RANGE, ROUND
from codegen.llvm.functions.of_float32 import Float32Lanes
from codegen.llvm.functions.of_float64 import FusedFloat64Lanes
from codegen.llvm.functions.operations import FloatOperations
from codegen.llvm.values import literal

_POINTS: Final = 32  # lanes of two registers
REGISTER_LANES: Final = 16
_AS_SET: Final = 4  # rounding as the thread's control register says
_INTEGER: Final = 8388608.0  # 2**23: adding it rounds to an integer, which the lowest bits hold
# The binary logarithm of e as the sum of two float32.
_LOG2_E: Final = 1.4426950216293335
_LOG2_E_REST: Final = 1.925963033500011e-08
_PARTS: Final = 16  # of an octave
_PART_BITS: Final = 4
_ROUND_TO_PART: Final = ROUND / _PARTS
_PART_ZERO: Final = 0x49400000  # the bits of it
_WHOLE_ZERO: Final = 0x4B400000  # the bits of ROUND
# (2**r - 1) / r between -1/32 and 1/32, interpolated at Chebyshev's points.
_POWER: Final = (5.55050857e-2, 2.40233555e-1, 6.93147182e-1)
_OCTAVE: Final = tuple(float(np.float32(2 ** (part / _PARTS))) for part in range(_PARTS))


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


def _times_power(lanes: FloatOperations, kind: str, mask: str, p: str, n: str) -> str:
    """``p * 2**n`` in one instruction, which rounds once.

    Args:
        lanes: of one register.
        kind: the intrinsic's name of these floats.
        mask: an integer of as many bits as there are lanes.
        p: any floats.
        n: integers as floats.
    """
    name, vector = f"llvm.x86.avx512.mask.scalef.{kind}.512", lanes.float
    kinds = f"{vector}, {vector}, {vector}, {mask}, i32"
    lanes.writer.declare(name, f"{vector} {{}}({kinds})")
    operands = f"{vector} {p}, {vector} {n}, {vector} poison, {mask} -1, i32 {_AS_SET}"
    return lanes.writer.emit(f"call {vector} @{name}({operands})")


class TableLanes(Float32Lanes):
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
        """``2**r * 2**(n / 16) * 2**m``, the second factor looked up: multiply-adds leave r exact
        but for what x times log2(e) rounds.
        """
        x = self._clamp(x, *EXP_RANGE)
        shifted = self.fma(x, self.const(_LOG2_E), self.const(_ROUND_TO_PART))
        n = self.sub(shifted, self.const(_ROUND_TO_PART))
        less = self.neg(n)
        r = self.fma(x, self.const(_LOG2_E), less)
        r = self.fma(x, self.const(_LOG2_E_REST), r)
        part = self._looked_up("exp.table", _OCTAVE, shifted)
        p = self.fma(self.mul(part, r), self.horner(_POWER, r), part)
        return self._scaled(p, shifted, n)

    def _scaled(self, p: str, shifted: str, n: str) -> str:
        if self.width != REGISTER_LANES:
            parts = self._op("sub", self.int, self.bits(shifted), self.const_int(_PART_ZERO))
            whole = self._op("ashr", self.int, parts, self.const_int(_PART_BITS))
            whole = self._op("add", self.int, whole, self.const_int(_WHOLE_ZERO))
            return super()._scaled(p, self.from_bits(whole), n)
        return _times_power(self, "ps", "i16", p, n)

    def _odd(self, table: RatioTable, x: str) -> str:
        size, most = self.fabs(x), self.const(table.most)
        size = self.pick(self.test("ogt", size, most), most, size)
        shifted = self.fma(size, self.const(1 / table.step), self.const(_INTEGER))
        point = self.sub(shifted, self.const(_INTEGER))
        u = self.fma(point, self.const(-table.step), size)
        result, *others = (
            self._looked_up(f"{table.name}.table.{k}", row, shifted)
            for k, row in enumerate(table.coefficients)
        )
        for row in others:
            result = self.fma(result, u, row)
        result, one = self.mul(result, size), self.const(1.0)
        return self.copysign(self.pick(self.test("ogt", result, one), one, result), x)

    def _looked_up(self, name: str, values: tuple[float, ...], shifted: str) -> str:
        """An element of a table for every lane; its number is in the lowest bits.

        Args:
            name: of the table, where it is in memory.
            values: of one register, or of two.
            shifted: float32.
        """
        if self.width == REGISTER_LANES:
            return self._permuted(values, shifted)
        kind = f"[{len(values)} x float]"
        body = ", ".join(f"float {literal(value, 'float32')}" for value in values)
        self.writer.define(name, f"private unnamed_addr constant {kind} [{body}], align 64")
        place = self._op("and", self.int, self.bits(shifted), self.const_int(len(values) - 1))
        lanes = f"<{self.width} x ptr>" if self.width else "ptr"
        at = self.writer.emit(f"getelementptr float, ptr @{name}, {self.int} {place}")
        if not self.width:
            return self.writer.emit(f"load float, ptr {at}, align 4")
        return self._gathered(lanes, at)

    def _permuted(self, values: tuple[float, ...], shifted: str) -> str:
        registers = [
            f"{self.float} {self._vector(values[n : n + REGISTER_LANES])}"
            for n in range(0, len(values), REGISTER_LANES)
        ]
        order = f"{self.int} {self.bits(shifted)}"
        if len(registers) == 1:
            name, operands = "llvm.x86.avx512.permvar.sf.512", (*registers, order)
        else:
            name = "llvm.x86.avx512.vpermi2var.ps.512"
            operands = registers[0], order, registers[1]
        kinds = ", ".join(operand.split("> ")[0] + ">" for operand in operands)
        self.writer.declare(name, f"{self.float} {{}}({kinds})")
        return self.writer.emit(f"call {self.float} @{name}({', '.join(operands)})")

    def _gathered(self, pointers: str, at: str) -> str:
        name = f"llvm.masked.gather.v{self.width}f32.v{self.width}p0"
        signature = f"{self.float} {{}}({pointers}, i32, {self.mask}, {self.float})"
        self.writer.declare(name, signature)
        all_lanes = self._splat("i1", "true")
        operands = f"{pointers} {at}, i32 4, {self.mask} {all_lanes}, {self.float} poison"
        return self.writer.emit(f"call {self.float} @{name}({operands})")

    def _vector(self, values: tuple[float, ...]) -> str:
        return "<" + ", ".join(f"float {literal(value, 'float32')}" for value in values) + ">"


class WideFloat64Lanes(FusedFloat64Lanes):
    """Float64 on such a processor; all widths give the same bits."""

    def _scaled(self, p: str, n: str) -> str:
        if self.width != REGISTER_LANES // 2:
            return super()._scaled(p, n)
        return _times_power(self, "pd", "i8", p, n)
