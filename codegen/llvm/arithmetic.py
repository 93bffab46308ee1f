"""Operators on SSA operands of one type: what ``+``, ``//``, ``max`` and ``<`` are in LLVM IR."""

from __future__ import annotations

from typing import Final

from codegen.errors import CodegenError
from codegen.llvm.math_calls import Lanes
from codegen.llvm.values import type_text
from codegen.llvm.writer import Writer

_FLOAT_OPS: Final = {
    "add": "fadd contract",
    "sub": "fsub contract",
    "mul": "fmul contract",
    "div": "fdiv",
}
_INT_OPS: Final = {"add": "add", "sub": "sub", "mul": "mul"}
_FLOAT_COMPARE: Final = {
    "lt": "olt",
    "le": "ole",
    "gt": "ogt",
    "ge": "oge",
    "eq": "oeq",
    "ne": "une",
}
_INT_COMPARE: Final = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_ELEMENTARY: Final = ("exp", "log", "tanh", "erf", "sigmoid", "sqrt", "rsqrt", "floor", "ceil")


class Arithmetic:
    """Writes operators; all operands of a call have the same dtype and width."""

    def __init__(self, writer: Writer, rounding: bool) -> None:
        """``rounding``: the machine has instructions for floor and ceil."""
        self.writer = writer
        self.rounding = rounding

    def lanes(self, width: int) -> Lanes:
        """The float32 functions for one vector width."""
        return Lanes(self.writer, width, self.rounding)

    def splat(self, text: str, dtype: str, width: int) -> str:
        """A literal as an operand of the given width."""
        return f"splat ({type_text(dtype, 0)} {text})" if width else text

    def binary(self, op: str, dtype: str, width: int, lhs: str, rhs: str) -> str:
        """An arithmetic operator."""
        if dtype == "float32":
            return self._float_binary(op, width, lhs, rhs)
        return self._int_binary(op, dtype, width, lhs, rhs)

    def _float_binary(self, op: str, width: int, lhs: str, rhs: str) -> str:
        kind = type_text("float32", width)
        if op in _FLOAT_OPS:
            return self.writer.emit(f"{_FLOAT_OPS[op]} {kind} {lhs}, {rhs}")
        if op in ("min", "max"):
            return self._extremum(op, width, lhs, rhs)
        lanes = self.lanes(width)
        if op == "pow":
            return lanes.pow(lhs, rhs)
        quotient = lanes.floor(self.writer.emit(f"fdiv {kind} {lhs}, {rhs}"))
        if op == "floordiv":
            return quotient
        product = self.writer.emit(f"fmul {kind} {quotient}, {rhs}")
        return self.writer.emit(f"fsub {kind} {lhs}, {product}")

    def _extremum(self, op: str, width: int, lhs: str, rhs: str) -> str:
        """NaN in either operand gives NaN.  ``maxps a, b`` is ``a > b ? a : b``, so a NaN in b
        survives by itself; a literal goes first and needs nothing more.
        """
        if not rhs.startswith("%"):
            lhs, rhs = rhs, lhs
        kind, mask = type_text("float32", width), type_text("bool", width)
        compare = "ogt" if op == "max" else "olt"
        test = self.writer.emit_free(f"fcmp {compare} {kind} {lhs}, {rhs}")
        result = self.writer.emit(f"select {mask} {test}, {kind} {lhs}, {kind} {rhs}")
        if not lhs.startswith("%"):
            return result
        test = self.writer.emit(f"fcmp uno {kind} {lhs}, {lhs}")
        return self.writer.emit(f"select {mask} {test}, {kind} {lhs}, {kind} {result}")

    def _int_binary(self, op: str, dtype: str, width: int, lhs: str, rhs: str) -> str:
        kind = type_text(dtype, width)
        if op in _INT_OPS:
            return self.writer.emit(f"{_INT_OPS[op]} {kind} {lhs}, {rhs}")
        if op in ("min", "max"):
            return self.writer.intrinsic(f"s{op}", type_text(dtype, 0), width, (lhs, rhs))
        if op in ("floordiv", "mod"):
            return self._floor_division(op, dtype, width, lhs, rhs)
        raise CodegenError(
            f"{op!r} of {dtype} has no machine code", hint="cast the operands to float32"
        )

    def _floor_division(self, op: str, dtype: str, width: int, lhs: str, rhs: str) -> str:
        """Python's ``//`` and ``%``: round to minus infinity; a divisor of 0 is taken as 1."""
        writer, kind = self.writer, type_text(dtype, width)
        mask, zero = type_text("bool", width), self.splat("0", dtype, width)
        if rhs.startswith("%"):
            test = writer.emit_free(f"icmp eq {kind} {rhs}, {zero}")
            one = self.splat("1", dtype, width)
            rhs = writer.emit_free(f"select {mask} {test}, {kind} {one}, {kind} {rhs}")
        quotient = writer.emit(f"sdiv {kind} {lhs}, {rhs}")
        product = writer.emit_free(f"mul {kind} {quotient}, {rhs}")
        rest = writer.emit_free(f"sub {kind} {lhs}, {product}")
        nonzero = writer.emit_free(f"icmp ne {kind} {rest}, {zero}")
        mixed = writer.emit_free(f"xor {kind} {rest}, {rhs}")
        negative = writer.emit_free(f"icmp slt {kind} {mixed}, {zero}")
        fix = writer.emit_free(f"and {mask} {nonzero}, {negative}")
        if op == "mod":
            moved = writer.emit_free(f"add {kind} {rest}, {rhs}")
            return writer.emit(f"select {mask} {fix}, {kind} {moved}, {kind} {rest}")
        step = writer.emit_free(f"sext {mask} {fix} to {kind}")
        return writer.emit(f"add {kind} {quotient}, {step}")

    def compare(self, op: str, dtype: str, width: int, lhs: str, rhs: str) -> str:
        """A comparison; a NaN is unequal to everything."""
        kind = type_text(dtype, width)
        if dtype == "float32":
            return self.writer.emit(f"fcmp {_FLOAT_COMPARE[op]} {kind} {lhs}, {rhs}")
        return self.writer.emit(f"icmp {_INT_COMPARE[op]} {kind} {lhs}, {rhs}")

    def logical(self, op: str, width: int, lhs: str, rhs: str) -> str:
        """``and`` / ``or`` of bool operands."""
        return self.writer.emit(f"{op} {type_text('bool', width)} {lhs}, {rhs}")

    def unary(self, op: str, dtype: str, width: int, operand: str) -> str:
        """Negation, absolute value, logical not, or an elementary function."""
        kind = type_text(dtype, width)
        if op in _ELEMENTARY:
            result: str = getattr(self.lanes(width), op)(operand)
            return result
        if op == "not":
            return self.writer.emit(f"xor {kind} {operand}, {self.splat('true', dtype, width)}")
        if dtype == "float32":
            if op == "neg":
                return self.writer.emit(f"fneg {kind} {operand}")
            return self.writer.intrinsic("fabs", "float", width, (operand,))
        negated = self.writer.emit(f"sub {kind} {self.splat('0', dtype, width)}, {operand}")
        if op == "neg":
            return negated
        return self.writer.intrinsic("smax", type_text(dtype, 0), width, (operand, negated))

    def cast(self, source: str, target: str, width: int, operand: str) -> str:
        """Conversion between dtypes; float to integer saturates, NaN gives 0."""
        old, new = type_text(source, width), type_text(target, width)
        if target == "bool":
            zero = "zeroinitializer" if width else literal_zero(source)
            return self.compare("ne", source, width, operand, zero)
        if source == "float32":
            base = f"v{width}" if width else ""
            name = f"llvm.fptosi.sat.{base}{type_text(target, 0)}.{base}f32"
            self.writer.declare(name, f"{new} {{}}({old})")
            return self.writer.emit(f"call {new} @{name}({old} {operand})")
        opcode = _cast_opcode(source, target)
        return self.writer.emit(f"{opcode} {old} {operand} to {new}")

    def select(self, dtype: str, width: int, test: str, lhs: str, rhs: str) -> str:
        """``lhs if test else rhs``, lane by lane."""
        kind = type_text(dtype, width)
        mask = type_text("bool", width)
        return self.writer.emit(f"select {mask} {test}, {kind} {lhs}, {kind} {rhs}")

    def fma(self, width: int, lhs: str, rhs: str, addend: str) -> str:
        """``lhs * rhs + addend``, in one rounding where the machine can."""
        return self.writer.intrinsic("fmuladd", "float", width, (lhs, rhs, addend))


def literal_zero(dtype: str) -> str:
    """Zero as a scalar operand."""
    return "0.0" if dtype == "float32" else "0"


def _cast_opcode(source: str, target: str) -> str:
    if target == "float32":
        return "uitofp" if source == "bool" else "sitofp"
    if source == "bool":
        return "zext"
    return "sext" if target == "int64" else "trunc"
