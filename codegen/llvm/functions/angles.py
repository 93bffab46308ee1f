"""Sine, cosine, tangent and the inverse tangent of float32 as polynomials in LLVM IR.

Largest errors, in units in the last place: sin, cos and tan 0.7 (computed in float64), atan 2.
Angles of 1.6 million and more are left to the C library, whose errors are below 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from codegen.llvm.functions import libm
from codegen.llvm.functions.lanes import Lanes
from codegen.llvm.values import vector_type
from codegen.llvm.writer import Writer

# Pi / 2 as the sum of two float64.  The first has 33 bits, so that its multiples below are exact.
_QUARTER: Final = 1.5707963267341256
_QUARTER_REST: Final = 6.077100506506192e-11
_MOST_QUARTERS: Final = 2**20
_NEAR: Final = _MOST_QUARTERS * math.pi / 2
_ROUND_DOUBLE: Final = 6755399441055744.0  # 1.5 * 2**52: the lowest bits hold the integer
# Of the square of the angle, up to an eighth of a turn and up to 1: nearly least relative errors.
_SINE: Final = (-1.9517233886290342e-4, 8.332177996635437e-3, -0.16666655242443085, 1.0)
_COSINE: Final = (
    2.4433080398011953e-5,
    -1.3887315290048718e-3,
    4.166664555668831e-2,
    -0.5,
    1.0,
)
_ARC: Final = (
    2.92064599e-3,
    -1.63677447e-2,
    4.32115644e-2,
    -7.55218938e-2,
    1.06659934e-1,
    -1.42110527e-1,
    1.99937731e-1,
    -3.33331525e-1,
)


class AngleLanes(Lanes):
    """The functions for one vector width (0: scalars).  Operands and results are SSA names."""

    def sin(self, x: str) -> str:
        """Sine."""
        return self._of_near_angles("sinf", AngleLanes._near_sin, x)

    def cos(self, x: str) -> str:
        """Cosine."""
        return self._of_near_angles("cosf", AngleLanes._near_cos, x)

    def tan(self, x: str) -> str:
        """Tangent."""
        return self._of_near_angles("tanf", AngleLanes._near_tan, x)

    def atan(self, x: str) -> str:
        """Inverse tangent: above 1, a quarter of a turn less that of the reciprocal."""
        size, one = self.fabs(x), self.const(1.0)
        steep = self.test("ogt", size, one)
        ratio = self.pick(steep, self.div(one, size), size)
        square = self.mul(ratio, ratio)
        angle = self.fma(self.mul(self.horner(_ARC, square), square), ratio, ratio)
        beyond = self.sub(self.const(math.pi / 2), angle)
        return self.copysign(self.pick(steep, beyond, angle), x)

    def _near_sin(self, x: str) -> str:
        return self._narrow(self._turned(*self._within_quarter(x)))

    def _near_cos(self, x: str) -> str:
        quarters, sine, cosine = self._within_quarter(x)
        next_quarter = self._op("add", self._long, quarters, self._const_long(1))
        return self._narrow(self._turned(next_quarter, sine, cosine))

    def _near_tan(self, x: str) -> str:
        quarters, sine, cosine = self._within_quarter(x)
        odd = self._is_odd(quarters)
        negative = self.writer.emit(f"fneg {self.double} {cosine}")
        top = self.pick(odd, negative, sine, self.double)
        bottom = self.pick(odd, sine, cosine, self.double)
        return self._narrow(self._op("fdiv", self.double, top, bottom))

    def _within_quarter(self, x: str) -> tuple[str, str, str]:
        """Quarter turns nearest to x, in the lowest bits of an int64, with the sine and the cosine
        of what is left, float64.
        """
        wide = self.double
        value = self.writer.emit(f"fpext {self.float} {x} to {wide}")
        whole = self.const_double(_ROUND_DOUBLE)
        shifted = self._double_fma(value, self.const_double(2 / math.pi), whole)
        count = self._op("fsub", wide, shifted, whole)
        angle = self._double_fma(count, self.const_double(-_QUARTER), value)
        angle = self._double_fma(count, self.const_double(-_QUARTER_REST), angle)
        square = self._op("fmul", wide, angle, angle)
        sine = self._op("fmul", wide, self._horner_double(_SINE, square), angle)  # of -0: -0
        quarters = self.writer.emit_free(f"bitcast {wide} {shifted} to {self._long}")
        return quarters, sine, self._horner_double(_COSINE, square)

    def _turned(self, quarters: str, sine: str, cosine: str) -> str:
        """The sine of the angle that many quarter turns on."""
        value = self.pick(self._is_odd(quarters), cosine, sine, self.double)
        bits = self.writer.emit_free(f"bitcast {self.double} {value} to {self._long}")
        half = self._op("and", self._long, quarters, self._const_long(2))
        sign = self._op("shl", self._long, half, self._const_long(62))
        bits = self._op("xor", self._long, bits, sign)
        return self.writer.emit_free(f"bitcast {self._long} {bits} to {self.double}")

    def _is_odd(self, quarters: str) -> str:
        last = self._op("and", self._long, quarters, self._const_long(1))
        return self._op("icmp ne", self._long, last, self._const_long(0))

    @property
    def _long(self) -> str:
        return vector_type("i64", self.width)

    def _const_long(self, value: int) -> str:
        return self._splat("i64", str(value))

    def _double_fma(self, x: str, factor: str, addend: str) -> str:
        return self.writer.intrinsic("fmuladd", "double", self.width, (x, factor, addend))

    def _narrow(self, value: str) -> str:
        return self.writer.emit(f"fptrunc {self.double} {value} to {self.float}")

    def _of_near_angles(self, symbol: str, near: Callable[[AngleLanes, str], str], x: str) -> str:
        """A function of its own, since it branches: the C library has the far angles."""
        name = f"angle.{symbol}.{self.width}"
        if name not in self.writer.declarations:
            self.writer.declarations[name] = self._function(name, symbol, near)
        return self.writer.emit(f"call {self.float} @{name}({self.float} {x})")

    def _function(self, name: str, symbol: str, near: Callable[[AngleLanes, str], str]) -> str:
        writer = Writer()
        writer.declarations = self.writer.declarations
        lanes = AngleLanes(writer, self.width)
        writer.open_block("entry")
        result = near(lanes, "%x")
        far = lanes.test("oge", lanes.fabs("%x"), lanes.const(_NEAR))
        writer.branch_if(lanes.any(far), "far", "done")
        writer.open_block("far")
        exact = lanes.pick(far, libm.call(writer, symbol, "float", self.width, ("%x",)), result)
        writer.branch("done")
        writer.open_block("done")
        total = writer.emit_free(f"phi {self.float} [{result}, %entry], [{exact}, %far]")
        writer.statement(f"ret {self.float} {total}")
        writer.finish_function(f"internal {self.float} @{name}({self.float} %x)", "nounwind")
        return writer.functions[0]

    def any(self, test: str) -> str:
        """Whether a test holds in one lane at least, as an i1."""
        if not self.width:
            return test
        self.writer.declare(
            f"llvm.vector.reduce.or.v{self.width}i1", f"i1 {{}}(<{self.width} x i1>)"
        )
        return self.writer.emit(
            f"call i1 @llvm.vector.reduce.or.v{self.width}i1({self.mask} {test})"
        )
