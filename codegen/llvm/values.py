"""Values of the emitter: SSA names, literals and integer forms that are not code yet."""

from __future__ import annotations

import math
import struct
from typing import Final, NamedTuple

import numpy as np

from sketch.lang.dtypes import (
    INDEX_DTYPES,
    is_float,
    is_integer,
    is_storage_float,
    size_of,
    wrap_integer,
)
from sketch.lang.storage_floats import storage_floats
from sketch.nest.loopnest import LoopVar

# 16-bit floats are bits, until they are converted
SSA_TYPES: Final = {
    "float32": "float", "float64": "double", "float16": "i16", "bfloat16": "i16",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "i8", "bool": "i1",
}  # fmt: skip
MEMORY_TYPES: Final = {**SSA_TYPES, "bool": "i8"}
SUFFIXES: Final = {
    "float": "f32", "double": "f64", "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8",
    "i1": "i1",
}  # fmt: skip

Terms = tuple[tuple[LoopVar, int], ...]


class Form(NamedTuple):
    """``const + lane_stride * lane + sum(coefficient * dynamic variable)``: an integer.

    ``pattern``: what each lane has besides; of addresses only, and empty where it is nothing.
    """

    dynamic: Terms
    lane: int
    const: int
    pattern: tuple[int, ...] = ()


class SsaValue(NamedTuple):
    """An operand: a scalar (``width`` 0) or a vector of ``width`` lanes.

    Integers may stand for a ``form`` whose code is not written yet (``ref`` is empty then);
    ``const`` is set for literals, which are scalars.
    """

    ref: str
    dtype: str
    width: int = 0
    const: float | int | bool | None = None
    form: Form | None = None


def literal(value: float | int | bool, dtype: str) -> str:
    """LLVM's text of a scalar constant."""
    if dtype == "bool":
        return "true" if value else "false"
    if is_storage_float(dtype):
        return str(rounded_bits(value, dtype))
    if is_float(dtype):
        number = float(value) if dtype == "float64" else _rounded(float(value))
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    bits = 8 * size_of(dtype)
    return str((int(value) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))


FLOAT_ZERO: Final = "0x0000000000000000"
"""``literal`` of 0 as a float32 or a float64."""


def _rounded(value: float) -> float:
    """The nearest float32."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def rounded_bits(value: float, dtype: str) -> int:
    """The bits of a 16-bit float."""
    return int(storage_floats(value, dtype).view(np.int16))


def of_literal(op: str, value: float | int | bool, dtype: str) -> float | int | bool:
    """``not value``, or ``-value``: of the least integer, that one again."""
    if op == "not":
        return not value
    return wrap_integer(-int(value), dtype) if is_integer(dtype) else -value


def constant(value: float | int | bool, dtype: str) -> SsaValue:
    """A literal."""
    if dtype in INDEX_DTYPES:
        return SsaValue("", dtype, 0, int(value), Form((), 0, int(value)))
    return SsaValue(literal(value, dtype), dtype, 0, value)


def identical_operand(op: str, dtype: str, lhs: SsaValue, rhs: SsaValue) -> SsaValue | None:
    """The operand that a float operation gives back exactly: of ``x * 1``, ``x / 1``, ``x + -0.0``,
    and NaN with any.

    Args:
        op: operator, as in expressions.
        dtype: of the operands.
        lhs: left operand.
        rhs: right operand.
    """
    if not is_float(dtype):
        return None
    if op != "pow":
        for operand in (lhs, rhs):
            if operand.const is not None and math.isnan(operand.const):
                return operand
    if rhs.const == 1.0 and op in ("mul", "div"):
        return lhs
    if op == "add" and _is_negative_zero(rhs):
        return lhs
    same = lhs.const == 1.0 if op == "mul" else op == "add" and _is_negative_zero(lhs)
    return rhs if same else None


def _is_negative_zero(value: SsaValue) -> bool:
    return value.const == 0.0 and math.copysign(1.0, value.const) < 0


def type_text(dtype: str, width: int) -> str:
    """LLVM's type of an SSA value."""
    return vector_type(SSA_TYPES[dtype], width)


def vector_type(scalar: str, width: int) -> str:
    """``scalar`` itself, or a vector of it."""
    return f"<{width} x {scalar}>" if width else scalar


def suffix(scalar: str, width: int) -> str:
    """The type suffix of an intrinsic: ``f32``, ``v16f32``."""
    return f"v{width}{SUFFIXES[scalar]}" if width else SUFFIXES[scalar]


def mask_literal(lanes: tuple[bool, ...]) -> str:
    """A constant vector of i1."""
    return "<" + ", ".join("i1 true" if lane else "i1 false" for lane in lanes) + ">"
