"""Values of the emitter: SSA names, literals and integer forms that are not code yet."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from sketch.loopnest import LoopVar

SSA_TYPES: Final = {"float32": "float", "int32": "i32", "int64": "i64", "bool": "i1"}
MEMORY_TYPES: Final = {"float32": "float", "int32": "i32", "int64": "i64", "bool": "i8"}
SUFFIXES: Final = {
    "float": "f32",
    "double": "f64",
    "i32": "i32",
    "i64": "i64",
    "i1": "i1",
    "i8": "i8",
}

Terms = tuple[tuple[LoopVar, int], ...]


@dataclass(frozen=True, slots=True)
class Form:
    """``const + lane_stride * lane + sum(coefficient * dynamic variable)``: an integer."""

    dynamic: Terms
    lane: int
    const: int


@dataclass(frozen=True, slots=True)
class Value:
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
    if dtype == "float32":
        try:
            rounded = struct.unpack("<f", struct.pack("<f", float(value)))[0]
        except OverflowError:
            rounded = float("inf") if value > 0 else float("-inf")
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    return str(int(value))


def constant(value: float | int | bool, dtype: str) -> Value:
    """A literal."""
    if dtype in ("int32", "int64"):
        return Value("", dtype, 0, int(value), Form((), 0, int(value)))
    return Value(literal(value, dtype), dtype, 0, value)


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
