"""Integer operators, from their definition: they wrap around, division by zero gives 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_Operator = Callable[[Array, Array], Array]


def _wide(function: Callable[[int, int], int]) -> _Operator:
    """Of Python's integers, element by element, then modulo two to the number of bits."""

    def apply(a: Array, b: Array) -> Array:
        x, y = np.broadcast_arrays(a, b)
        bits = 8 * x.dtype.itemsize
        signed = x.dtype.kind == "i"
        found = [
            _wrap(function(int(p), int(q)), bits, signed)
            for p, q in zip(x.ravel(), y.ravel(), strict=True)
        ]
        return np.array(found, dtype=object).astype(x.dtype).reshape(x.shape)

    return apply


def _wrap(value: int, bits: int, signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _trunc_div(a: int, b: int) -> int:
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def _pow(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64) if a >= 0 else (-1) ** (b % 2) * pow(-a, b, 1 << 64)
    return {1: 1, -1: (-1) ** (b % 2)}.get(a, 0)


def _shift(a: Array, b: Array, left: bool) -> Array:
    bits = 8 * a.dtype.itemsize
    inside = (b >= 0) & (b < bits)
    amount = np.where(inside, b, 0).astype(a.dtype)
    if left:
        return np.where(inside, np.left_shift(a, amount), 0).astype(a.dtype)
    return np.where(inside, np.right_shift(a, amount), np.where(a < 0, -1, 0)).astype(a.dtype)


def _division(function: Any) -> _Operator:
    """Fast for the usual divisors: all but 0 and -1, which would overflow or warn."""

    def apply(a: Array, b: Array) -> Array:
        x, y = np.broadcast_arrays(a, b)
        least = np.iinfo(x.dtype).min
        safe = np.where(y == 0, 1, y).astype(x.dtype)
        wraps = (y == -1) & (x == least) if x.dtype.kind == "i" else np.zeros(x.shape, bool)
        result = function(np.where(wraps, 0, x).astype(x.dtype), safe)
        quotient = function is not np.mod and function is not np.fmod
        result = np.where(wraps, least if quotient else 0, result)
        return np.where(y == 0, 0, result).astype(x.dtype)

    return apply


BINARY: Final[dict[str, _Operator]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "min": np.minimum, "max": np.maximum,
    "floordiv": _division(np.floor_divide), "mod": _division(np.mod),
    "trunc_mod": _division(np.fmod), "trunc_div": _wide(_trunc_div), "pow": _wide(_pow),
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
    "shift_left": lambda a, b: _shift(a, b, True),
    "shift_right": lambda a, b: _shift(a, b, False),
}  # fmt: skip
UNARY: Final[dict[str, Any]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "bit_not": np.invert
}  # fmt: skip


def from_floats(values: Array, dtype: str) -> Array:
    """Truncated toward zero and saturated; NaN is 0."""
    limits = np.iinfo(dtype)
    cut = np.trunc(np.where(np.isnan(values), 0.0, values))
    low, high = cut <= float(limits.min), cut >= float(limits.max)
    middle = np.where(low | high, 0.0, cut).astype(dtype)
    return np.where(low, limits.min, np.where(high, limits.max, middle)).astype(dtype)
