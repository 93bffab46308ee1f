"""Scalar types, literals, conversions and functions as CUDA C++ text.

16-bit floats are an ``unsigned short`` with their bits; they are only stored and converted.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Final

import numpy as np

from codegen.errors import CodegenError
from sketch.lang.dtypes import (
    BOOL,
    integer_limits,
    is_float,
    is_integer,
    is_storage_float,
    is_unsigned,
)
from sketch.lang.operator_names import FLOAT_CALLS, ORDINAL, ROUND_TF32
from sketch.lang.storage_floats import storage_floats

C_TYPES: Final[Mapping[str, str]] = {
    "float64": "double", "float32": "float", "float16": "unsigned short",
    "bfloat16": "unsigned short", "int64": "long long", "int32": "int", "int16": "short",
    "int8": "signed char", "uint8": "unsigned char", "bool": "bool",
}  # fmt: skip
_SHORT_NAMES: Final = {"float16": "half", "bfloat16": "brain"}
_CALLS: Final = {"abs": "fabs", "round": "rint"}


def call(op: str, operand: str, dtype: str) -> str:
    """A unary operator or function of an operand of ``dtype``."""
    if op == "not":
        return f"(!{operand})"
    if op == "bit_not":
        return f"({C_TYPES[dtype]})(~{operand})"
    if op == "sign":
        return f"sign_of({operand})"
    return (_integer_call if is_integer(dtype) else _float_call)(op, operand, dtype)


def _float_call(op: str, operand: str, dtype: str) -> str:
    if op == "neg":
        return f"(- {operand})"  # of a negative constant too: two signs together are an operator
    if op == "is_nan":
        return f"({operand} != {operand})"
    if op == "is_inf":
        return f"({_float_call('abs', operand, dtype)} == {literal(math.inf, dtype)})"
    if op in ("sigmoid", ROUND_TF32, ORDINAL):
        return f"{op}({operand})"
    if op == "rsqrt" and dtype == "float64":
        return f"(1.0 / sqrt({operand}))"
    if op == "abs" or op in FLOAT_CALLS:
        return f"{_CALLS.get(op, op)}{_suffix(dtype)}({operand})"
    raise CodegenError(f"{op} of {dtype} has no CUDA code")


def _integer_call(op: str, operand: str, dtype: str) -> str:
    kind = C_TYPES[dtype]
    wide = "unsigned long long" if dtype == "int64" else "unsigned"
    negated = f"({kind})(0 - ({wide})({operand}))"
    if op == "neg":
        return negated
    if op == "abs":
        return operand if is_unsigned(dtype) else f"({operand} < 0 ? {negated} : {operand})"
    raise CodegenError(f"{op} of {dtype} has no CUDA code")


def _suffix(dtype: str) -> str:
    return "" if dtype == "float64" else "f"


def power_function(dtype: str) -> str:
    """The function ``base ** exponent``."""
    return "whole_pow" if is_integer(dtype) else f"pow{_suffix(dtype)}"


def convert(operand: str, source: str, target: str) -> str:
    """A cast; float to integer truncates toward zero and saturates, NaN gives 0."""
    if is_storage_float(source):
        return convert(f"{_SHORT_NAMES[source]}_to_float({operand})", "float32", target)
    if target == source:
        return operand
    if target == BOOL:
        return f"({operand} != 0)"
    if is_storage_float(target):
        return f"float_to_{_SHORT_NAMES[target]}({_single(operand, source, target)})"
    if is_float(source) and is_integer(target):
        low, high = integer_limits(target)
        bounds = (literal(float(low), source), literal(float(high + 1), source))
        limits = (literal(low, target), literal(high, target))
        return f"saturate<{C_TYPES[target]}>({operand}, {', '.join((*bounds, *limits))})"
    return f"({C_TYPES[target]})({operand})"


def _single(operand: str, source: str, target: str) -> str:
    """A float32 that rounds to the same 16-bit float: digits that it cannot hold make it odd."""
    if source == "float64":
        return f"odd_float({operand})"
    if target == "bfloat16" and source in ("int64", "int32"):
        return f"odd_float(exact_double({operand}))"
    return convert(operand, source, "float32")


def literal(value: float | int | bool, dtype: str) -> str:
    """A constant of ``dtype``, with the very bits."""
    if dtype == BOOL:
        return "true" if value else "false"
    if is_storage_float(dtype):
        return f"(unsigned short){int(storage_floats(value, dtype).view(np.uint16))}"
    if is_float(dtype):
        return _float_literal(float(value), dtype)
    number, suffix = int(value), "LL" if dtype == "int64" else ""
    kind = "" if dtype in ("int32", "int64") else f"({C_TYPES[dtype]})"
    if number in (-(2**31), -(2**63)):
        return f"({number + 1}{suffix} - 1)"
    return f"{kind}{number}{suffix}" if number >= 0 else f"{kind}({number}{suffix})"


def _float_literal(value: float, dtype: str) -> str:
    if dtype == "float64":
        if math.isfinite(value):
            return repr(value)
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        return f"__longlong_as_double(0x{bits:x})"
    with np.errstate(over="ignore"):
        text = str(np.float32(value))
    special = {"inf": "0x7f800000", "-inf": "0xff800000", "nan": "0x7fffffff"}.get(text)
    if special is not None:
        return f"__int_as_float({special})"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
