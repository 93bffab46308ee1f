"""Numbers with a bound on how far a right implementation may be from them.

Written from the definition of the expressions, on purpose without any code of the product: floats
in a wider type with a running error bound, integers exactly, with a mark where they depend on a
float that is too near a decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
# Of the arithmetic: unit roundoff, smallest step, largest number.
_UNIT: Final = {"float32": 2.0**-24, "float64": 2.0**-53}
_STEP: Final = {"float32": 2.0**-149, "float64": 2.0**-1074}
_LARGEST: Final = {"float32": 3.4028234e38, "float64": 1.797693e308}
# Of what is stored: unit roundoff, smallest step, largest number.
_STORED: Final = {
    "float16": (2.0**-11, 2.0**-24, 65504.0),
    "bfloat16": (2.0**-8, 2.0**-133, 3.38e38),
    "float32": (2.0**-24, 2.0**-149, 3.4028234e38),
}
# Elementary functions are within 4 units in the last place, 8 roundoffs; and a little slack.
_FUNCTION_ROUNDOFFS: Final = 10.0
_OF_ANGLES: Final = (np.sin, np.cos, np.tan)
_MOST_RADIANS: Final = 0.5


class Number(NamedTuple):
    """Values and how far off they may be (0: exact; infinity: anything is right).

    ``dtype`` is the dtype of the expression; values of floats are in a wider one.
    """

    value: Array
    error: Array
    dtype: str


def arithmetic(dtype: str) -> str:
    """The dtype that floats are computed in."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def is_float(dtype: str) -> bool:
    """Whether a dtype is a float."""
    return dtype in FLOATS


def rounded(value: Array, error: Array, dtype: str, roundoffs: float) -> Number:
    """A float result: adds ``roundoffs`` of it to the error, gives up near an overflow."""
    kind = arithmetic(dtype)
    size = np.abs(value)
    error = error + roundoffs * _UNIT[kind] * size + 2 * _STEP[kind]
    error = np.where(np.isfinite(value), error, np.where(np.isfinite(error), 0.0, np.inf))
    lost = np.isnan(error) | (np.isfinite(value) & (size + error > 0.99 * _LARGEST[kind]))
    return Number(value, np.where(lost, np.inf, error), dtype)


def certain(*numbers: Number) -> Array:
    """0 where all are exact, infinity elsewhere."""
    total: Array = np.asarray(sum(n.error for n in numbers))
    return np.where(total > 0, np.inf, 0.0)


def add(a: Number, b: Number, sign: int) -> Number:
    """``a + sign * b``."""
    return rounded(a.value + sign * b.value, a.error + b.error, a.dtype, 2)


def multiply(a: Number, b: Number) -> Number:
    """The product."""
    slack = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
    return rounded(a.value * b.value, slack, a.dtype, 2)


def divide(a: Number, b: Number) -> Number:
    """The quotient."""
    value = a.value / b.value
    room = np.abs(b.value) - b.error
    slack = (a.error + np.abs(value) * b.error) / np.where(room > 0, room, np.nan)
    exact = (a.error == 0) & (b.error == 0)
    return rounded(value, np.where(exact, 0.0, slack), a.dtype, 4)


def extreme(a: Number, b: Number, function: Any) -> Number:
    """The smaller or larger one; NaN passes."""
    return Number(function(a.value, b.value), np.maximum(a.error, b.error), a.dtype)


def power(a: Number, b: Number) -> Number:
    """``a ** b`` of a positive base."""
    value = np.power(a.value, b.value)
    relative = np.abs(b.value) * a.error / np.abs(a.value) + np.abs(np.log(a.value)) * b.error
    return rounded(value, np.abs(value) * relative, a.dtype, _FUNCTION_ROUNDOFFS)


def remainder(a: Number, b: Number, function: Any) -> Number:
    """A function with jumps, of two floats: known where both are exact."""
    value = function(a.value, b.value)
    near = 4 * _UNIT[arithmetic(a.dtype)] * np.abs(b.value)
    return rounded(value, certain(a, b) + np.where(np.isfinite(near), near, 0.0), a.dtype, 4)


def sign_of(a: Number) -> Number:
    """1, 0 or -1."""
    unclear = (a.error > 0) & (np.abs(a.value) <= a.error)
    return Number(np.sign(a.value), np.where(unclear, np.inf, 0.0), a.dtype)


def whole(a: Number, function: Any) -> Number:
    """A function to whole numbers."""
    low, high = function(a.value - a.error), function(a.value + a.error)
    unclear = (a.error > 0) & ~(low == high)
    return Number(function(a.value), np.where(unclear, np.inf, 0.0), a.dtype)


def smooth(a: Number, function: Callable[[Array], Array]) -> Number:
    """An elementary function: the error of its argument shows at both ends of its interval, but
    for that of an angle, which may be a good part of a turn.
    """
    value = function(a.value)
    spread = np.maximum(
        np.abs(function(a.value + a.error) - value), np.abs(function(a.value - a.error) - value)
    )
    error = np.where(a.error > 0, 1.5 * spread, 0.0)
    if function in _OF_ANGLES:
        error = np.where(a.error > _MOST_RADIANS, np.inf, error)
    return rounded(value, error, a.dtype, _FUNCTION_ROUNDOFFS)


def compare(a: Number, b: Number, function: Any) -> Number:
    """A truth value, unknown where the operands may be equal."""
    slack = a.error + b.error
    unclear = slack > 0
    if is_float(a.dtype):
        unclear &= ~(np.abs(a.value - b.value) > slack)
    return Number(function(a.value, b.value), np.where(unclear, np.inf, 0.0), "bool")


def choose(condition: Number, a: Number, b: Number) -> Number:
    """``a`` where the condition holds."""
    value = np.where(condition.value, a.value, b.value)
    error = np.where(condition.value, a.error, b.error)
    return Number(value, np.where(condition.error > 0, np.inf, error), a.dtype)


def store(number: Number) -> Number:
    """A float as memory of its dtype holds it."""
    if number.dtype not in _STORED:
        return number
    unit, step, largest = _STORED[number.dtype]
    size = np.abs(number.value)
    error = number.error + unit * size + step
    error = np.where(np.isfinite(number.value), error, number.error)
    lost = np.isfinite(number.value) & (size + error > 0.99 * largest)
    return Number(number.value, np.where(lost, np.inf, error), number.dtype)


def erf(values: Array) -> Array:
    """The error function, element by element."""
    flat = [math.erf(float(v)) for v in np.asarray(values, np.float64).ravel()]
    return np.array(flat).reshape(np.shape(values))


SMOOTH: Final[dict[str, Callable[[Array], Array]]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "erf": erf, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
WHOLE: Final[dict[str, Any]] = {
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc
}  # fmt: skip
COMPARE: Final[dict[str, Any]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
