"""Operators on SSA operands of one type: what ``+``, ``//``, ``max`` and ``<`` are in LLVM IR."""

from __future__ import annotations

from typing import Final

from codegen.llvm.conversions import Conversions
from codegen.llvm.features import ProcessorFeatures
from codegen.llvm.functions.of_float32 import Float32Lanes
from codegen.llvm.functions.of_float64 import Float64Lanes, FusedFloat64Lanes
from codegen.llvm.functions.of_tables import TableLanes, WideFloat64Lanes
from codegen.llvm.integers import Integers
from codegen.llvm.values import literal, type_text
from codegen.llvm.writer import Writer
from sketch.lang.dtypes import integer_limits, is_float, is_unsigned
from sketch.lang.expr import Cast
from sketch.lang.operator_names import BITS, FLOAT_CALLS, ORDINAL, ROUND_TF32

_FLOAT_OPS: Final = {
    "add": "fadd contract",
    "sub": "fsub contract",
    "mul": "fmul contract",
    "div": "fdiv",
}
_FLOAT_COMPARE: Final = {
    "lt": "olt",
    "le": "ole",
    "gt": "ogt",
    "ge": "oge",
    "eq": "oeq",
    "ne": "une",
}
_INT_COMPARE: Final = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_SCALARS: Final = {"float32": "float", "float64": "double"}


class Arithmetic:
    """Writes operators; all operands of a call have the same dtype and width."""

    def __init__(self, writer: Writer, features: ProcessorFeatures) -> None:
        self.writer, self.features = writer, features
        self.conversions = Conversions(writer, features)
        self._products: dict[str, bool] = {}  # whether one of the factors is a literal

    def lanes(self, dtype: str, width: int) -> Float32Lanes | Float64Lanes:
        """The elementary functions of a float dtype for one vector width."""
        if dtype == "float64":
            return self._doubles(width)
        return self._floats(width)

    def _doubles(self, width: int) -> Float64Lanes:
        if self.features.wide:
            return WideFloat64Lanes(self.writer, width)
        lanes = FusedFloat64Lanes if self.features.fused else Float64Lanes
        return lanes(self.writer, width)

    def _floats(self, width: int) -> Float32Lanes:
        lanes = TableLanes if self.features.wide else Float32Lanes
        return lanes(self.writer, width, self.features.rounding)

    def splat(self, text: str, dtype: str, width: int) -> str:
        """A literal as an operand of the given width."""
        return f"splat ({type_text(dtype, 0)} {text})" if width else text

    def _const(self, value: float, dtype: str, width: int) -> str:
        return self.splat(literal(value, dtype), dtype, width)

    def binary(self, op: str, dtype: str, width: int, lhs: str, rhs: str) -> str:
        """An arithmetic operator.

        Args:
            op: operator, as in expressions.
            dtype: of the operands.
            width: lanes; 0: a scalar.
            lhs: name of the left SSA value.
            rhs: name of the right SSA value.
        """
        if is_float(dtype):
            return self._float_binary(op, dtype, width, lhs, rhs)
        return Integers(self.writer, dtype, width).binary(op, lhs, rhs)

    def _float_binary(self, op: str, dtype: str, width: int, lhs: str, rhs: str) -> str:
        kind = type_text(dtype, width)
        if op in ("add", "sub") and self._are_rounded(lhs, rhs):
            return self.writer.emit_once(f"f{op} {kind} {lhs}, {rhs}")
        if op in _FLOAT_OPS:
            result = self.writer.emit_once(f"{_FLOAT_OPS[op]} {kind} {lhs}, {rhs}")
            if op == "mul":
                self._products[result] = not (lhs.startswith("%") and rhs.startswith("%"))
            return result
        if op in ("min", "max"):
            return self._extremum(op, dtype, width, lhs, rhs)
        if op == "pow":
            return self.lanes(dtype, width).pow(lhs, rhs)
        return self._float_division(op, dtype, width, lhs, rhs)

    def _are_rounded(self, lhs: str, rhs: str) -> bool:
        """Whether these are products that are not merged with their sum.

        One would be rounded and the other not: a * a - b * b must be 0 where a is b.  Values that
        are both scaled by literals are merged.
        """
        scaled = [self._products.get(lhs), self._products.get(rhs)]
        return None not in scaled and not all(scaled)

    def _float_division(self, op: str, dtype: str, width: int, lhs: str, rhs: str) -> str:
        """Exact remainders, as the C library's ``fmod``; quotients rounded down that fit them."""
        writer, kind, mask = self.writer, type_text(dtype, width), type_text("bool", width)
        lanes, zero = self.lanes(dtype, width), self._const(0.0, dtype, width)
        rest = lanes.fmod(lhs, rhs)
        if op == "trunc_mod":
            return rest
        nonzero = writer.emit(f"fcmp une {kind} {rest}, {zero}")
        below = writer.emit(f"fcmp olt {kind} {rest}, {zero}")
        divisor_below = writer.emit(f"fcmp olt {kind} {rhs}, {zero}")
        differ = writer.emit(f"xor {mask} {below}, {divisor_below}")
        fix = writer.emit(f"and {mask} {nonzero}, {differ}")
        if op == "mod":
            moved = writer.emit(f"fadd {kind} {rest}, {rhs}")
            result = self.select(dtype, width, fix, moved, rest)
            signed = lanes.copysign(zero, rhs)
            exact = writer.emit(f"fcmp oeq {kind} {rest}, {zero}")
            return self.select(dtype, width, exact, signed, result)
        quotient = writer.emit(f"fdiv {kind} {writer.emit(f'fsub {kind} {lhs}, {rest}')}, {rhs}")
        one = self._const(1.0, dtype, width)
        lower = writer.emit(f"fsub {kind} {quotient}, {one}")
        whole = lanes.round(self.select(dtype, width, fix, lower, quotient))
        by_zero = writer.emit(f"fcmp oeq {kind} {rhs}, {zero}")
        return self.select(dtype, width, by_zero, writer.emit(f"fdiv {kind} {lhs}, {rhs}"), whole)

    def _extremum(self, op: str, dtype: str, width: int, lhs: str, rhs: str) -> str:
        """NaN in either operand gives NaN.  ``maxps a, b`` is ``a > b ? a : b``, so a NaN in b
        survives by itself; a literal is a and needs nothing more.

        Otherwise a is the new term of a reduction: testing the running value would make every step
        wait for two instructions.  With lane masks the second select is part of the first.
        """
        a, b = (rhs, lhs) if lhs.startswith("%") else (lhs, rhs)
        result = self.extremum_of_numbers(op, dtype, width, b, a)
        if not a.startswith("%"):
            return result
        kind, mask = type_text(dtype, width), type_text("bool", width)
        test = self.writer.emit(f"fcmp ord {kind} {a}, {a}")
        return self.writer.emit(f"select {mask} {test}, {kind} {result}, {kind} {a}")

    def extremum_of_numbers(self, op: str, dtype: str, width: int, old: str, new: str) -> str:
        """``old`` where ``new`` is NaN, and a NaN where ``old`` is: one instruction.

        Args:
            op: "max" or "min".
            dtype: of the operands, floats.
            width: lanes; 0: a scalar.
            old: name of the left SSA value.
            new: name of the right SSA value.
        """
        kind, mask = type_text(dtype, width), type_text("bool", width)
        compare = "ogt" if op == "max" else "olt"
        test = self.writer.emit_free(f"fcmp {compare} {kind} {new}, {old}")
        return self.writer.emit(f"select {mask} {test}, {kind} {new}, {kind} {old}")

    def compare(self, op: str, dtype: str, width: int, lhs: str, rhs: str) -> str:
        """A comparison; a NaN is unequal to everything.

        Args:
            op: operator, as in expressions.
            dtype: of the operands.
            width: lanes; 0: a scalar.
            lhs: name of the left SSA value.
            rhs: name of the right SSA value.
        """
        kind = type_text(dtype, width)
        if is_float(dtype):
            return self.writer.emit(f"fcmp {_FLOAT_COMPARE[op]} {kind} {lhs}, {rhs}")
        test = _INT_COMPARE[op]
        if is_unsigned(dtype):
            test = test.replace("s", "u", 1)
        return self.writer.emit(f"icmp {test} {kind} {lhs}, {rhs}")

    def logical(self, op: str, width: int, lhs: str, rhs: str) -> str:
        """``and`` / ``or`` of bool operands.

        Args:
            op: operator, as in expressions.
            width: lanes; 0: a scalar.
            lhs: name of the left SSA value.
            rhs: name of the right SSA value.
        """
        return self.writer.emit(f"{op} {type_text('bool', width)} {lhs}, {rhs}")

    def unary(self, op: str, dtype: str, width: int, operand: str) -> str:
        """A unary operator or function of an operand of ``dtype``.

        Args:
            op: operator, as in expressions.
            dtype: of the operands.
            width: lanes; 0: a scalar.
            operand: name of the SSA value.
        """
        if op in FLOAT_CALLS:
            result: str = getattr(self.lanes(dtype, width), op)(operand)
            return result
        kind = type_text(dtype, width)
        if op == BITS:
            return self.writer.emit(f"zext {kind} {operand} to {type_text('int32', width)}")
        if op in ("not", "bit_not"):
            ones = self.splat("true" if op == "not" else "-1", dtype, width)
            return self.writer.emit(f"xor {kind} {operand}, {ones}")
        if op == ROUND_TF32:
            return self._round_tf32(width, operand)
        if op == ORDINAL:
            return self._ordinal(width, operand)
        if op == "sign":
            return self._sign(dtype, width, operand)
        if is_float(dtype):
            return self._float_unary(op, dtype, width, operand)
        if op == "abs" and is_unsigned(dtype):
            return operand
        negated = self.writer.emit(f"sub {kind} {self.splat('0', dtype, width)}, {operand}")
        if op == "neg":
            return negated
        return self.writer.intrinsic("smax", type_text(dtype, 0), width, (operand, negated))

    def _round_tf32(self, width: int, operand: str) -> str:
        """The nearest number of 10 fraction bits, ties away from zero; infinities and NaN stay."""
        kind = type_text("int32", width)
        half, kept = (self.splat(str(n), "int32", width) for n in (1 << 12, -1 << 13))
        lanes = self._floats(width)
        moved = self.writer.emit(f"add {kind} {lanes.bits(operand)}, {half}")
        rounded = lanes.from_bits(self.writer.emit(f"and {kind} {moved}, {kept}"))
        return lanes.pick(lanes.test("uno", operand, operand), operand, rounded)

    def _ordinal(self, width: int, operand: str) -> str:
        """Places in the order of floats: bits of a negative number count down from zero."""
        limits = integer_limits("int32")
        least, most, zero = (self.splat(str(n), "int32", width) for n in (*limits, 0))
        lanes, kind = self._floats(width), type_text("int32", width)
        bits = lanes.bits(operand)
        below = self.compare("lt", "int32", width, bits, zero)
        size = self.writer.emit(f"sub {kind} {least}, {bits}")
        place = self.select("int32", width, below, size, bits)
        return self.select("int32", width, lanes.test("uno", operand, operand), most, place)

    def _float_unary(self, op: str, dtype: str, width: int, operand: str) -> str:
        kind = type_text(dtype, width)
        if op == "neg":
            result = self.writer.emit(f"fneg {kind} {operand}")
            if operand in self._products:
                self._products[result] = self._products[operand]
            return result
        if op == "is_nan":
            return self.writer.emit(f"fcmp uno {kind} {operand}, {operand}")
        size = self.writer.intrinsic("fabs", _SCALARS[dtype], width, (operand,))
        if op == "abs":
            return size
        infinity = self._const(float("inf"), dtype, width)
        return self.writer.emit(f"fcmp oeq {kind} {size}, {infinity}")

    def _sign(self, dtype: str, width: int, operand: str) -> str:
        """1, -1, 0 or, of a float, NaN; 0 for what counts as it, such as a denormal number."""
        zero, one = self._const(0, dtype, width), self._const(1, dtype, width)
        neither = zero
        if is_float(dtype):
            nan = self._float_unary("is_nan", dtype, width, operand)
            neither = self.select(dtype, width, nan, operand, zero)
        above = self.compare("gt", dtype, width, operand, zero)
        result = self.select(dtype, width, above, one, neither)
        if is_unsigned(dtype):
            return result
        below = self.compare("lt", dtype, width, operand, zero)
        return self.select(dtype, width, below, self._const(-1, dtype, width), result)

    def cast(self, source: str, target: str, width: int, operand: str) -> str:
        """Conversion between dtypes; float to integer saturates, NaN gives 0.

        Args:
            source: dtype of the operand.
            target: dtype of the result.
            width: lanes; 0: a scalar.
            operand: name of the SSA value.
        """
        return self.conversions.cast(source, target, width, operand)

    def stays_float(self, inner: Cast, dtype: str) -> bool:
        """Whether ``dtype(inner)`` of vectors is what ``within_byte`` computes."""
        types = (inner.operand.dtype, inner.dtype, dtype)
        return types == ("float32", "uint8", "float32") and self.features.rounding

    def within_byte(self, width: int, operand: str) -> str:
        """Vectors of float32 to uint8 and back, without being bytes: what is quantised is so."""
        limited = self.conversions.limited("uint8", width, operand)
        return self._floats(width).trunc(limited)

    def select(self, dtype: str, width: int, test: str, lhs: str, rhs: str) -> str:
        """``lhs if test else rhs``, lane by lane.

        Args:
            dtype: of the operands.
            width: lanes; 0: a scalar.
            test: name of the i1 SSA value.
            lhs: name of the left SSA value.
            rhs: name of the right SSA value.
        """
        kind = type_text(dtype, width)
        mask = type_text("bool", width)
        return self.writer.emit_once(f"select {mask} {test}, {kind} {lhs}, {kind} {rhs}")

    def fma(self, dtype: str, width: int, lhs: str, rhs: str, addend: str) -> str:
        """``lhs * rhs + addend``, in one rounding where the machine can.

        Args:
            dtype: of the operands.
            width: lanes; 0: a scalar.
            lhs: name of the left SSA value.
            rhs: name of the right SSA value.
            addend: name of the SSA value that is added.
        """
        return self.writer.intrinsic("fmuladd", _SCALARS[dtype], width, (lhs, rhs, addend))
