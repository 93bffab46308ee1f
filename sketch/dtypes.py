"""Scalar types of tensor expressions, named as NumPy names them."""

from typing import Final

import numpy as np

from sketch.errors import ExpressionError

FLOATS: Final = ("float32", "float64", "float16", "bfloat16")
STORAGE_FLOATS: Final = ("float16", "bfloat16")
INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8")
BOOL: Final = "bool"
SUPPORTED: Final = ("float32", "int32", "int64", "bool")
_BYTES: Final = {"float32": 4, "int32": 4, "int64": 8, "bool": 1}


def check_dtype(dtype: str) -> str:
    """Return ``dtype`` itself, or raise ExpressionError when it is not supported."""
    if dtype not in SUPPORTED:
        raise ExpressionError(
            f"dtype {dtype!r} is not supported", hint=f"use one of {', '.join(SUPPORTED)}"
        )
    return dtype


def size_of(dtype: str) -> int:
    """Bytes that one element of ``dtype`` takes in memory."""
    return _BYTES[check_dtype(dtype)]


def is_float(dtype: str) -> bool:
    """Whether ``dtype`` is a floating-point type."""
    return dtype in FLOATS


def is_integer(dtype: str) -> bool:
    """Whether ``dtype`` is an integer type (bool is not)."""
    return dtype in INTEGERS


def promote(lhs: str, rhs: str) -> str:
    """The dtype of an arithmetic result, as NumPy promotes; int with float32 stays float32."""
    if lhs == rhs:
        return lhs
    if is_float(lhs) != is_float(rhs):
        return lhs if is_float(lhs) else rhs
    return str(np.promote_types(lhs, rhs))
