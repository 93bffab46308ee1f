"""Scalar types of tensor expressions, named as NumPy (and ``ml_dtypes``) name them.

float16 and bfloat16 are *storage types*: loads widen them to float32, arithmetic is float32, and
the result is rounded (to nearest, ties to even) where it is stored.
"""

from typing import Any, Final, TypeAlias

import ml_dtypes  # also makes "bfloat16" a name that NumPy knows
import numpy as np

from sketch.errors import ExpressionError

FLOATS: Final = ("float32", "float64", "float16", "bfloat16")
STORAGE_FLOATS: Final = ("float16", "bfloat16")
INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8")
BYTES: Final = ("uint8", "int8")
# Index arithmetic: exact where no value is out of range, else it wraps around.
INDEX_DTYPES: Final = ("int32", "int64")
BOOL: Final = "bool"
SUPPORTED: Final = (*FLOATS, *INTEGERS, BOOL)
_SIZES: Final = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip


AnyDtype: TypeAlias = str | np.dtype[Any] | type[Any]
"""A dtype as users name it: "float32", ``np.float32``, ``array.dtype``."""


def check_dtype(dtype: AnyDtype) -> str:
    """The name of ``dtype``; raises ExpressionError when it is not supported."""
    name = np.dtype(dtype).name if isinstance(dtype, np.dtype | type) else dtype
    if name not in SUPPORTED:
        raise ExpressionError(
            f"dtype {dtype!r} is not supported", hint=f"use one of {', '.join(SUPPORTED)}"
        )
    return name


def size_of(dtype: str) -> int:
    """Bytes that one element of ``dtype`` takes in memory (a bool takes one byte)."""
    known = _SIZES.get(dtype)
    return known if known is not None else _SIZES[check_dtype(dtype)]


def is_float(dtype: str) -> bool:
    """Whether ``dtype`` is a floating-point type."""
    return dtype in FLOATS


def is_storage_float(dtype: str) -> bool:
    """Whether ``dtype`` is a 16-bit float, which only memory holds."""
    return dtype in STORAGE_FLOATS


def is_integer(dtype: str) -> bool:
    """Whether ``dtype`` is an integer type (bool is not)."""
    return dtype in INTEGERS


def is_unsigned(dtype: str) -> bool:
    """Whether values of ``dtype`` are never negative."""
    return dtype in ("uint8", BOOL)


def integer_limits(dtype: str) -> tuple[int, int]:
    """Least and largest value of an integer type."""
    bits = 8 * size_of(dtype)
    return (0, 2**bits - 1) if is_unsigned(dtype) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def check_integer(value: int, dtype: str) -> int:
    """Return ``value`` itself, or raise ExpressionError when the integer type cannot hold it."""
    low, high = integer_limits(dtype)
    if not low <= value <= high:
        raise ExpressionError(
            f"{value} does not fit {dtype} ({low}..{high})", hint="cast the other operand first"
        )
    return value


def wrap_integer(value: int, dtype: str) -> int:
    """``value`` modulo two to the number of bits: what a register of type ``dtype`` holds."""
    low, high = integer_limits(dtype)
    return (value - low) % (high - low + 1) + low


def arithmetic_dtype(dtype: str) -> str:
    """The dtype that arithmetic on ``dtype`` is done in: float32 for the 16-bit floats."""
    return "float32" if dtype in STORAGE_FLOATS else dtype


def numpy_dtype(dtype: str) -> np.dtype[np.generic]:
    """NumPy's type of arrays of ``dtype``; bfloat16 is that of ``ml_dtypes``."""
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else check_dtype(dtype))


def promote(lhs: str, rhs: str) -> str:
    """The dtype of an arithmetic result, as NumPy promotes.

    Integers follow any float, whatever their size (int64 with float32 stays float32); float16 with
    bfloat16 gives float32.
    """
    if lhs == rhs:
        return lhs
    if is_float(lhs) != is_float(rhs):
        return lhs if is_float(lhs) else rhs
    if is_float(lhs):
        return "float64" if "float64" in (lhs, rhs) else "float32"
    return str(np.promote_types(lhs, rhs))
