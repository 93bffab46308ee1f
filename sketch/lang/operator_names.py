"""The operators of scalar expressions by name, and which dtypes each of them takes."""

from __future__ import annotations

from typing import Final

from sketch.errors import ExpressionError
from sketch.lang.dtypes import BOOL, is_float, is_integer

ARITHMETIC: Final = (
    "add", "sub", "mul", "div", "floordiv", "mod", "trunc_div", "trunc_mod", "min", "max", "pow",
)  # fmt: skip
BITWISE: Final = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")
COMPARISON: Final = ("lt", "le", "gt", "ge", "eq", "ne")
LOGICAL: Final = ("and", "or")
FLOAT_CALLS: Final = (
    "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "erf", "sigmoid",
    "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "floor", "ceil", "round", "trunc",
)  # fmt: skip
STEPS: Final = ("sign", "floor", "ceil", "round", "trunc")
"""Functions that are constant between jumps; an error matters where it reaches one."""
FLOAT_TESTS: Final = ("is_nan", "is_inf")
ROUND_TF32: Final = "round_tf32"
"""A float32 with the 10 fraction bits that tensor units of GPUs multiply."""
ORDINAL: Final = "ordinal"
"""The place of a float among all float32 in order, as an int32."""
RESULTS: Final = {**dict.fromkeys(FLOAT_TESTS, BOOL), ORDINAL: "int32"}
"""Dtypes of functions whose results are not of that of their operand."""
GROUP: Final = "group"
"""An element and those after it in memory, as many as a tensor unit takes for a lane or a row, as
an int32 or an int64: of code alone."""
JOIN: Final = "join"
"""The lanes of a vector, and after them those of another: of code alone."""
LOW_HALF: Final = "low_half"
HIGH_HALF: Final = "high_half"
"""Half of the lanes of a vector: of code alone."""
BITS: Final = "bits"
"""The bits of an element as an int32 that is not negative: of code alone."""
UNARY: Final = (
    "neg", "abs", "sign", "not", "bit_not", *FLOAT_CALLS, *FLOAT_TESTS, ROUND_TF32, ORDINAL,
)  # fmt: skip


def check_operands(op: str, lhs: str, rhs: str) -> None:
    """Raise ExpressionError for logic on numbers, and for arithmetic on truth values."""
    if op in LOGICAL and (lhs != BOOL or rhs != BOOL):
        raise ExpressionError(f"{op!r} needs bool operands, got {lhs}, {rhs}")
    if BOOL in (lhs, rhs) and (op in ARITHMETIC or op in BITWISE):
        raise ExpressionError(
            f"{op!r} needs numbers, got {lhs} and {rhs}", hint="use cast(...) or select(...)"
        )


def check_binary(op: str, dtype: str) -> None:
    """Raise ExpressionError unless ``op`` is arithmetic or bitwise, and defined on ``dtype``."""
    if op not in ARITHMETIC and op not in BITWISE:
        raise ExpressionError(f"unknown operator {op!r}")
    if op == "div" and not is_float(dtype):
        raise ExpressionError(f"'/' needs floats, got {dtype}", hint="use // for integers")
    if op in BITWISE and not is_integer(dtype):
        raise ExpressionError(f"{op!r} needs integers, got {dtype}")
    if op == "trunc_div" and not is_integer(dtype):
        raise ExpressionError(f"{op!r} needs integers, got {dtype}", hint="use trunc(a / b)")


def check_unary(op: str, dtype: str) -> None:
    """Raise ExpressionError unless ``op`` is a function of one operand, defined on ``dtype``."""
    if op not in UNARY:
        raise ExpressionError(f"unknown function {op!r}", hint=f"known: {', '.join(UNARY)}")
    if (op == "not") != (dtype == BOOL):
        raise ExpressionError(f"{op!r} cannot take a {dtype}")
    if op == ROUND_TF32 and dtype != "float32":
        raise ExpressionError(f"{op!r} needs a float32, got {dtype}", hint="use cast(...)")
    if op == ORDINAL and (dtype == "float64" or not is_float(dtype)):
        raise ExpressionError(f"{op!r} needs a float32 or less, got {dtype}")
    if op == "bit_not" and not is_integer(dtype):
        raise ExpressionError(f"{op!r} needs an integer, got {dtype}")
    if (op in FLOAT_CALLS or op in FLOAT_TESTS) and not is_float(dtype):
        raise ExpressionError(f"{op!r} needs a float, got {dtype}", hint="use cast(...)")
