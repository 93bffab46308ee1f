"""What every operator and function means, in NumPy: the definition that the backends are held to.

Floats are float64 arrays whatever their dtype in the program, integers and booleans have their own
dtype and wrap around.  Callers silence NumPy's floating-point warnings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketch.lang.dtypes import integer_limits, is_float, is_integer, is_storage_float, numpy_dtype
from sketch.lang.storage_floats import storage_floats

Array = NDArray[Any]

_erf = np.frompyfunc(math.erf, 1, 1)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _reciprocal_root(x: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(x))


def _erf_values(x: Array) -> Array:
    return np.asarray(_erf(x)).astype(np.float64)


def rounded_tf32(x: Array) -> Array:
    """Nearest numbers of 11 digits, ties away from zero; below the normal ones at equal steps.

    Those that are further than 2**128 from 0 are infinite; float64 in and out.
    """
    limits = np.finfo(np.float32)
    digits, exponent = np.frexp(x)
    place = np.maximum(exponent, limits.minexp + 1) - 11
    scaled = np.ldexp(digits, exponent - place)
    found = np.ldexp(np.trunc(scaled + np.copysign(0.5, scaled)), place)
    return np.where(np.abs(found) >= 2.0**limits.maxexp, np.copysign(np.inf, found), found)


def ordinal(x: Array) -> Array:
    """Places of float32 numbers in their order, int32: NaN is last, -0 is 0."""
    limits = np.iinfo(np.int32)
    bits = np.asarray(x, np.float32).view(np.int32)
    size = bits & limits.max
    return np.where(np.isnan(x), limits.max, np.where(bits < 0, -size, size)).astype(np.int32)


UNARY_FUNCTIONS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign,
    "not": np.logical_not, "bit_not": np.invert,
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
    "sqrt": np.sqrt, "rsqrt": _reciprocal_root, "erf": _erf_values, "sigmoid": _sigmoid,
    "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
    "round_tf32": rounded_tf32, "ordinal": ordinal,
    "is_nan": np.isnan, "is_inf": np.isinf,
}  # fmt: skip


def _is_minus_one(values: Array) -> Array:
    # unsigned integers have none
    return values != values if values.dtype.kind == "u" else np.asarray(values == -1)


def _guarded(quotient: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Integer division: 0 by zero; the least number by -1 wraps around to itself."""

    def divide(lhs: Array, rhs: Array) -> Array:
        negate, zero = _is_minus_one(rhs), rhs == 0
        safe = np.where(zero | negate, np.ones_like(rhs), rhs)
        result = np.where(negate, np.negative(lhs), quotient(lhs, safe))
        return np.where(zero, np.zeros_like(result), result)

    return divide


def _remainder(remainder: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Integer remainder: 0 for the divisors 0 and -1."""

    def divide(lhs: Array, rhs: Array) -> Array:
        return remainder(lhs, np.where((rhs == 0) | _is_minus_one(rhs), np.ones_like(rhs), rhs))

    return divide


def _trunc_quotient(lhs: Array, rhs: Array) -> Array:
    quotient = np.floor_divide(lhs, rhs)
    inexact = quotient * rhs != lhs
    step = (inexact & ((lhs < 0) != (rhs < 0))).astype(quotient.dtype)
    return np.asarray(quotient + step)


def _shift(lhs: Array, rhs: Array, left: bool) -> Array:
    bits = 8 * lhs.dtype.itemsize
    inside = (rhs >= 0) & (rhs < bits)
    amount = np.where(inside, rhs, np.zeros_like(rhs))
    if left:
        return np.where(inside, np.left_shift(lhs, amount), np.zeros_like(lhs))
    outside = np.where(lhs < 0, ~np.zeros_like(lhs), np.zeros_like(lhs))
    return np.where(inside, np.right_shift(lhs, amount), outside)


def _power(lhs: Array, rhs: Array) -> Array:
    """C's ``pow``; NumPy takes square roots where the exponent is 0.5, which differ below."""
    power = np.power(lhs, rhs)
    differs = (rhs == 0.5) & ((lhs == 0) | (lhs == -np.inf))
    return np.where(differs, np.abs(lhs), power)


def _integer_power(lhs: Array, rhs: Array) -> Array:
    """Wraps around; a negative exponent gives the quotient rounded toward zero (0 for base 0)."""
    power = np.power(lhs, np.where(rhs < 0, rhs & 1, rhs))
    unit = np.abs(lhs) == 1 if lhs.dtype.kind == "i" else lhs == 1
    return np.where((rhs < 0) & ~unit, np.zeros_like(power), power)


_BINARY: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": np.floor_divide, "mod": np.mod, "trunc_mod": np.fmod,
    "min": np.minimum, "max": np.maximum, "pow": _power,
    "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
    "shift_left": lambda a, b: _shift(a, b, True),
    "shift_right": lambda a, b: _shift(a, b, False),
}  # fmt: skip
_INTEGER_BINARY: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "floordiv": _guarded(np.floor_divide),
    "trunc_div": _guarded(_trunc_quotient),
    "mod": _remainder(np.mod),
    "trunc_mod": _remainder(np.fmod),
    "pow": _integer_power,
}


def binary_function(op: str, dtype: str) -> Callable[[Array, Array], Array]:
    """The function of a binary operator on operands of ``dtype``."""
    known = _INTEGER_BINARY.get(op) if is_integer(dtype) else None
    return known if known is not None else _BINARY[op]


def oracle_dtype(dtype: str) -> str:
    """The NumPy dtype that the oracle computes ``dtype`` in: float64 for every float."""
    return "float64" if is_float(dtype) else dtype


def rounded(value: Any, dtype: str) -> Array:
    """Numbers as memory of ``dtype`` holds them, in the oracle's dtype."""
    if is_storage_float(dtype):
        return storage_floats(value, dtype).astype(oracle_dtype(dtype))
    return np.asarray(value).astype(numpy_dtype(dtype)).astype(oracle_dtype(dtype))


def convert(value: Array, source: str, target: str) -> Array:
    """Cast: float to integer truncates toward zero and saturates, NaN is 0; integers wrap.

    Conversions to 16-bit floats, and from float64 to float32, round.
    """
    if target == "bool":
        return np.asarray(value != 0)
    if is_float(source) and is_integer(target):
        return _saturated(value, target)
    if is_storage_float(target) or (source == "float64" and target == "float32"):
        return rounded(value, target)
    return value.astype(oracle_dtype(target))


def _saturated(value: Array, dtype: str) -> Array:
    low, high = integer_limits(dtype)
    whole = np.trunc(value)
    inside = (whole >= low) & (whole < high + 1)
    result = np.where(inside, whole, 0.0).astype(dtype)
    result = np.where(whole < low, np.asarray(low, dtype), result)
    return np.where(whole >= high + 1, np.asarray(high, dtype), result)
