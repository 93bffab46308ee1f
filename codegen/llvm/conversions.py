"""Conversions between scalar types in LLVM IR, saturating where C leaves them undefined.

16-bit floats are bits in an i16: they are only ever loaded, stored, selected and converted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codegen.llvm.features import ProcessorFeatures
from codegen.llvm.values import type_text, vector_type
from codegen.llvm.writer import Writer
from sketch.lang.dtypes import (
    BOOL,
    integer_limits,
    is_float,
    is_storage_float,
    is_unsigned,
    size_of,
)

_LOW_BITS: Final = (1 << 11) - 1  # of an int64, whose other bits fit a float64


class Conversions:
    """Writes casts, with the conversions that the machine does by itself."""

    def __init__(self, writer: Writer, features: ProcessorFeatures) -> None:
        self.writer, self.half, self.brain = writer, features.half, features.brain

    def cast(self, source: str, target: str, width: int, operand: str) -> str:
        """``operand`` as ``target``: float to integer saturates, NaN gives 0; integers wrap.

        Args:
            source: dtype of the operand.
            target: dtype of the result.
            width: lanes; 0: a scalar.
            operand: name of the SSA value.
        """
        if is_storage_float(source):
            operand, source = _Half(self, width).widened(source, operand), "float32"
        if target == source:
            return operand
        if target == BOOL:
            return self._truth(source, width, operand)
        if is_storage_float(target):
            operand = self._single(source, target, width, operand)
            return _Half(self, width).narrowed(target, operand)
        if is_float(source) and not is_float(target):
            return self._saturated(source, target, width, operand)
        return self.convert(_opcode(source, target), source, target, width, operand)

    def _single(self, source: str, target: str, width: int, operand: str) -> str:
        """A float32 that rounds to the same 16-bit float: digits that it cannot hold make it odd.

        float16 needs that of no integer: those with more digits are infinite.
        """
        if source == "float64":
            return _Odd(self.writer, width).single(operand)
        if target == "bfloat16" and source in ("int64", "int32"):
            odd = _Odd(self.writer, width)
            whole = odd.whole(operand) if source == "int64" else operand
            return odd.single(self.convert("sitofp", source, "float64", width, whole))
        return self.cast(source, "float32", width, operand)

    def convert(self, opcode: str, source: str, target: str, width: int, operand: str) -> str:
        """A conversion instruction.

        Args:
            opcode: of LLVM, such as ``sitofp``.
            source: dtype of the operand.
            target: dtype of the result.
            width: lanes; 0: a scalar.
            operand: name of the SSA value.
        """
        old, new = type_text(source, width), type_text(target, width)
        return self.writer.emit(f"{opcode} {old} {operand} to {new}")

    def limited(self, dtype: str, width: int, operand: str) -> str:
        """Vectors of float32 within the limits of an unsigned ``dtype``; NaN gives 0.

        Args:
            dtype: of less than 32 bits.
            width: lanes.
            operand: name of the SSA value.
        """
        return _Clamped(self.writer, width, "float32", dtype).limited(operand)

    def _truth(self, source: str, width: int, operand: str) -> str:
        zero = "zeroinitializer" if width else ("0.0" if is_float(source) else "0")
        compare = "fcmp une" if is_float(source) else "icmp ne"
        return self.writer.emit(f"{compare} {type_text(source, width)} {operand}, {zero}")

    def _saturated(self, source: str, target: str, width: int, operand: str) -> str:
        if width:
            return _Clamped(self.writer, width, source, target).cast(operand)
        old, new = type_text(source, width), type_text(target, width)
        name = f"fpto{'u' if is_unsigned(target) else 's'}i.sat"
        full = f"llvm.{name}.{new}.f{8 * size_of(source)}"
        self.writer.declare(full, f"{new} {{}}({old})")
        return self.writer.emit(f"call {new} @{full}({old} {operand})")


class _Clamped:
    """Vectors of floats to integers, for which LLVM has scalar code only.

    Args:
        writer: of the code.
        width: lanes.
        source: dtype of the floats.
        target: dtype of the integers; those of less than 32 bits are converted as such.
    """

    def __init__(self, writer: Writer, width: int, source: str, target: str) -> None:
        self.writer = writer
        self.element, self.float = type_text(source, 0), type_text(source, width)
        self.target, self.low, self.high = type_text(target, width), *integer_limits(target)
        self.whole = type_text(max(target, "int32", key=size_of), 0)
        self.int = vector_type(self.whole, width)
        self.mask = vector_type("i1", width)
        self.exact = self.high < 2 << np.finfo(source).nmant

    def cast(self, operand: str) -> str:
        """``operand`` within the limits, truncated; NaN gives 0."""
        whole = self.writer.emit(f"fptosi {self.float} {self.limited(operand)} to {self.int}")
        if not self.exact:
            above = self._test("oge", operand, self._number(self.high + 1))
            whole = self._pick(above, f"splat ({self.whole} {self.high})", whole)
        if self.low < 0:  # of NaN, and one that is not below 0 is 0 already
            number = self._test("ord", operand, operand)
            whole = self._pick(number, whole, "zeroinitializer")
        if self.int == self.target:
            return whole
        return self.writer.emit(f"trunc {self.int} {whole} to {self.target}")

    def limited(self, operand: str) -> str:
        """``operand`` not below the limits, nor above those that are floats."""
        value = self._larger(operand, self.low)
        return self._smaller(value, self.high) if self.exact else value

    def _larger(self, operand: str, low: int) -> str:
        """As the instruction: the second one if the first is NaN."""
        return self._choose("ogt", operand, self._number(low))

    def _smaller(self, operand: str, high: int) -> str:
        return self._choose("olt", operand, self._number(high))

    def _choose(self, condition: str, operand: str, bound: str) -> str:
        test = self._test(condition, operand, bound)
        return self.writer.emit(
            f"select {self.mask} {test}, {self.float} {operand}, {self.float} {bound}"
        )

    def _test(self, condition: str, lhs: str, rhs: str) -> str:
        return self.writer.emit(f"fcmp {condition} {self.float} {lhs}, {rhs}")

    def _pick(self, test: str, lhs: str, rhs: str) -> str:
        return self.writer.emit(f"select {self.mask} {test}, {self.int} {lhs}, {self.int} {rhs}")

    def _number(self, value: int) -> str:
        return f"splat ({self.element} {float(value):.1f})"


def _opcode(source: str, target: str) -> str:
    """The instruction from a number or bool to another number."""
    if is_float(source):
        return "fpext" if size_of(target) > size_of(source) else "fptrunc"
    if is_float(target):
        return "uitofp" if is_unsigned(source) else "sitofp"
    if source == BOOL or size_of(target) > size_of(source):
        return "zext" if is_unsigned(source) else "sext"
    return "bitcast" if size_of(target) == size_of(source) else "trunc"


class _Odd:
    """Rounding to odd: of the two neighbours of a number, the one whose last bit is 1.

    Rounding that to fewer digits, to nearest, gives what the number itself would have given.
    """

    def __init__(self, writer: Writer, width: int) -> None:
        self.writer, self.width = writer, width
        self.single_bits, self.long = vector_type("i32", width), vector_type("i64", width)
        self.float, self.double = vector_type("float", width), vector_type("double", width)
        self.mask = vector_type("i1", width)

    def single(self, operand: str) -> str:
        """The float32 of a float64."""
        write, free = self.writer.emit, self.writer.emit_free
        nearest = write(f"fptrunc {self.double} {operand} to {self.float}")
        back = write(f"fpext {self.float} {nearest} to {self.double}")
        ours = free(f"bitcast {self.double} {back} to {self.long}")
        wanted = free(f"bitcast {self.double} {operand} to {self.long}")
        bits = free(f"bitcast {self.float} {nearest} to {self.single_bits}")
        # both have the same sign, so bits compare as magnitudes do
        above = write(f"icmp ugt {self.long} {ours}, {wanted}")
        inexact = write(f"icmp ne {self.long} {ours}, {wanted}")
        one = write(f"zext {self.mask} {above} to {self.single_bits}")
        last = write(f"zext {self.mask} {inexact} to {self.single_bits}")
        below = write(f"sub {self.single_bits} {bits}, {one}")
        odd = write(f"or {self.single_bits} {below}, {last}")
        return free(f"bitcast {self.single_bits} {odd} to {self.float}")

    def whole(self, operand: str) -> str:
        """An int64 with no more digits than a float64."""
        low = self._op("and", operand, _LOW_BITS)
        carried = self._op("add", low, _LOW_BITS)
        joined = self.writer.emit(f"or {self.long} {carried}, {operand}")
        odd = self._op("and", joined, ~_LOW_BITS)
        shifted = self._op("add", operand, 1 << 53)
        small = self._op("icmp ult", shifted, 1 << 54)
        return self.writer.emit(
            f"select {self.mask} {small}, {self.long} {operand}, {self.long} {odd}"
        )

    def _op(self, op: str, operand: str, number: int) -> str:
        literal = f"splat (i64 {number})" if self.width else str(number)
        return self.writer.emit(f"{op} {self.long} {operand}, {literal}")


class _Half:
    """16-bit floats to and from float32, rounding to nearest, ties to even."""

    def __init__(self, conversions: Conversions, width: int) -> None:
        self.writer, self.width = conversions.writer, width
        self.half, self.brain = conversions.half, conversions.brain
        self.short, self.int = vector_type("i16", width), vector_type("i32", width)
        self.float, self.native = vector_type("float", width), vector_type("half", width)
        self.mask = vector_type("i1", width)

    def widened(self, dtype: str, operand: str) -> str:
        """The float32 of 16 bits; exact."""
        if dtype == "float16" and self.half:
            bits = self._free(f"bitcast {self.short} {operand} to {self.native}")
            return self.writer.emit(f"fpext {self.native} {bits} to {self.float}")
        word = self._free(f"zext {self.short} {operand} to {self.int}")
        if dtype == "bfloat16":
            return self._as_float(self._op("shl", word, self._int(16)))
        return self._widened_half(word)

    def narrowed(self, dtype: str, operand: str) -> str:
        """The nearest 16-bit float, as bits; NaN stays NaN, overflow gives infinity."""
        if self.half if dtype == "float16" else self.brain:
            native = self.native if dtype == "float16" else vector_type("bfloat", self.width)
            value = self.writer.emit(f"fptrunc {self.float} {operand} to {native}")
            return self._free(f"bitcast {native} {value} to {self.short}")
        word = self._brain(operand) if dtype == "bfloat16" else self._narrowed_half(operand)
        return self._free(f"trunc {self.int} {word} to {self.short}")

    def _brain(self, operand: str) -> str:
        """Add just less than half of the last place, and its last bit."""
        word = self._bits(operand)
        last = self._op("and", self._op("lshr", word, self._int(16)), self._int(1))
        moved = self._op("add", self._op("add", word, self._int(0x7FFF)), last)
        quiet = self._op("or", word, self._int(0x400000))
        number = self._test("ord", operand, operand)
        return self._op("lshr", self._pick(number, moved, quiet), self._int(16))

    def _widened_half(self, word: str) -> str:
        """Put the bits in place as those of a float32, with its exponent.

        Denormal ones are what is left of 2**-14 and as much: nothing on the way is denormal as a
        float32, which may be flushed to zero.
        """
        sign = self._op("shl", self._op("and", word, self._int(0x8000)), self._int(16))
        size = self._op("and", word, self._int(0x7FFF))
        placed = self._op("shl", size, self._int(13))
        normal = self._op("add", placed, self._int(112 << 23))
        above = self._as_float(self._op("or", placed, self._int(113 << 23)))
        tiny = self._bits(self._float_op("fsub", above, self._const(0x3F10000000000000)))
        number = self._pick(self._op("icmp ult", size, self._int(0x400)), tiny, normal)
        special = self._op("icmp uge", size, self._int(0x7C00))
        filled = self._op("or", normal, self._int(0x7F800000))
        return self._as_float(self._op("or", self._pick(special, filled, number), sign))

    def _narrowed_half(self, operand: str) -> str:
        """Let a float32 addition round: the other operand's exponent puts the last place of the
        float16 at the last place of the sum.
        """
        word = self._bits(operand)
        sign = self._op("lshr", self._op("and", word, self._int(-(2**31))), self._int(16))
        size = self._as_float(self._op("and", word, self._int(0x7FFFFFFF)))
        # too large for a float16 becomes infinite, the rest is as before times 4
        base = self._float_op("fmul", size, self._const(0x46F0000000000000))
        base = self._float_op("fmul", base, self._const(0x3910000000000000))
        doubled = self._op("shl", word, self._int(1))
        exponent = self._op("and", doubled, self._int(-0x1000000))
        tiny = self._op("icmp ult", exponent, self._int(0x71000000))
        exponent = self._pick(tiny, self._int(0x71000000), exponent)
        shifted = self._op("lshr", exponent, self._int(1))
        place = self._as_float(self._op("add", shifted, self._int(0x07800000)))
        total = self._bits(self._float_op("fadd", place, base))
        high = self._op("and", self._op("lshr", total, self._int(13)), self._int(0x7C00))
        number = self._op("add", high, self._op("and", total, self._int(0xFFF)))
        valid = self._test("ord", operand, operand)
        return self._op("or", self._pick(valid, number, self._int(0x7E00)), sign)

    def _free(self, text: str) -> str:
        return self.writer.emit_free(text)

    def _int(self, value: int) -> str:
        return f"splat (i32 {value})" if self.width else str(value)

    def _const(self, bits: int) -> str:
        text = f"0x{bits:016X}"
        return f"splat (float {text})" if self.width else text

    def _op(self, op: str, lhs: str, rhs: str) -> str:
        return self.writer.emit(f"{op} {self.int} {lhs}, {rhs}")

    def _float_op(self, op: str, lhs: str, rhs: str) -> str:
        return self.writer.emit(f"{op} {self.float} {lhs}, {rhs}")

    def _test(self, condition: str, lhs: str, rhs: str) -> str:
        return self.writer.emit(f"fcmp {condition} {self.float} {lhs}, {rhs}")

    def _pick(self, test: str, lhs: str, rhs: str) -> str:
        return self.writer.emit(f"select {self.mask} {test}, {self.int} {lhs}, {self.int} {rhs}")

    def _bits(self, value: str) -> str:
        return self._free(f"bitcast {self.float} {value} to {self.int}")

    def _as_float(self, word: str) -> str:
        return self._free(f"bitcast {self.int} {word} to {self.float}")
