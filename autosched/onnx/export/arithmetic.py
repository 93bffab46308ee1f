"""Forms of operators of two operands: quotients, remainders and shifts of integers are exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from autosched.graph.ops.base import broadcast_shape
from autosched.graph.ops.elementwise import BinaryOp
from autosched.onnx.export.terms import (
    NARROW,
    Given,
    GivenValue,
    OnnxCall,
    Part,
    call,
    converted,
    in_wide,
    scalar,
    stored,
    widened,
)
from autosched.onnx.importer.elementwise import BINARY_OPERATORS
from sketch.lang.dtypes import BOOL, is_float, is_unsigned, numpy_dtype, size_of

_NAMES: Final[Mapping[str, str]] = {
    "pow": "Pow",
    **{function: name for name, function in BINARY_OPERATORS.items()},
}
# Types that onnxruntime has no kernel for.
_MISSING: Final[Mapping[str, tuple[str, ...]]] = {
    "pow": NARROW,
    "max": ("int16",),
    "min": ("int16",),
    **dict.fromkeys(("lt", "le", "gt", "ge"), (BOOL,)),
}


def binary(op: BinaryOp, given: Given) -> OnnxCall:
    """One operator, but for what ONNX has no operator of, or leaves open for some operands."""
    special = _SPECIAL.get(op.function)
    if special is not None:
        return special(given)
    return in_wide(_NAMES[op.function], given, narrow=_MISSING.get(op.function, ()))


def _not_equal(given: Given) -> OnnxCall:
    if given.data.dtype == BOOL:
        return call("Xor", *given.operands)
    return call("Not", call("Equal", *given.operands))


def _prelu(given: Given) -> OnnxCall:
    """PRelu, whose slopes are repeated, but not the data."""
    data, slope = given.operands
    own, wide, values = _in_wide(given)
    if broadcast_shape((data.shape, slope.shape)) == data.shape:
        return stored(call("PRelu", *values), wide, own)
    negative = call("Less", values[0], scalar(0, wide))
    return stored(call("Where", negative, call("Mul", *values), values[0]), wide, own)


def _divide(given: Given) -> OnnxCall:
    """Div, which truncates integers; their quotient by 0 is 0, by -1 the negative number, which is
    an error in onnxruntime for the least one.
    """
    lhs, rhs = given.operands
    if is_float(lhs.dtype) or _is_harmless(rhs):
        return call("Div", lhs, rhs)
    own, wide, (dividend, divisor) = _in_wide(given)
    zero = call("Equal", divisor, scalar(0, wide))
    quotient = call("Div", dividend, _harmless(divisor, wide))
    if not is_unsigned(own):
        negates = call("Equal", divisor, scalar(-1, wide))
        quotient = call("Where", negates, call("Neg", dividend), quotient)
    return stored(call("Where", zero, scalar(0, wide), quotient), wide, own)


def _mod(given: Given) -> OnnxCall:
    """The remainder with the sign of the divisor; Mod has that of integers alone."""
    lhs, rhs = given.operands
    if not is_float(lhs.dtype):
        return _integer_mod(given)
    zero = scalar(0, lhs.dtype)
    remainder = call("Mod", lhs, rhs, fmod=1)
    differ = call("Xor", call("Less", remainder, zero), call("Less", rhs, zero))
    moves = call("And", differ, call("Not", call("Equal", remainder, zero)))
    return call("Add", remainder, call("Where", moves, rhs, zero))


def _integer_mod(given: Given) -> OnnxCall:
    """Mod; the remainder is 0 for the divisors 0 and -1, which are an error in onnxruntime."""
    lhs, rhs = given.operands
    if _is_harmless(rhs):
        return call("Mod", lhs, rhs, fmod=0)
    own, wide, (dividend, divisor) = _in_wide(given)
    return stored(call("Mod", dividend, _harmless(divisor, wide), fmod=0), wide, own)


def _trunc_mod(given: Given) -> OnnxCall:
    """The remainder with the sign of the dividend; that of integers is what Div leaves.

    In onnxruntime, Mod with ``fmod`` rounds large integers to floats.
    """
    lhs, rhs = given.operands
    if is_float(lhs.dtype):
        return call("Mod", lhs, rhs, fmod=1)
    own, wide, (dividend, divisor) = _in_wide(given)
    by = divisor if _is_harmless(rhs) else _harmless(divisor, wide)
    whole = call("Mul", call("Div", dividend, by), by)
    return stored(call("Sub", dividend, whole), wide, own)


def _in_wide(given: Given) -> tuple[str, str, tuple[Part, ...]]:
    """The type of the operands, the one they are computed in, and they in it."""
    own, wide = given.data.dtype, widened(given.data.dtype)
    return own, wide, tuple(converted(operand, own, wide) for operand in given.operands)


def _is_harmless(divisor: GivenValue) -> bool:
    """Whether an integer divisor is known never to be 0 or -1."""
    array = divisor.array
    return array is not None and not np.any((array == 0) | (array.astype(np.int64) == -1))


def _harmless(divisor: Part, dtype: str) -> OnnxCall:
    """The divisor, or 1 instead of 0 and -1."""
    zero = call("Equal", divisor, scalar(0, dtype))
    negative = call("Equal", divisor, scalar(-1, dtype))
    return call("Where", call("Or", zero, negative), scalar(1, dtype), divisor)


def _shift_left(given: Given) -> OnnxCall:
    """A product with a power of two: BitShift is of unsigned integers alone."""
    own, wide, (value, amount) = _in_wide(given)
    last = 8 * size_of(own) - 1
    product = call("Mul", value, _power_of_two(amount, last, wide))
    return stored(
        call("Where", _is_between(amount, last, wide), product, scalar(0, wide)), wide, own
    )


def _shift_right(given: Given) -> OnnxCall:
    """A quotient rounded down; a shift by all bits, or out of range, leaves the sign."""
    own, wide, (value, amount) = _in_wide(given)
    last = 8 * size_of(own) - (1 if is_unsigned(own) else 2)
    power = _power_of_two(amount, last, wide)
    below = call("Sub", value, call("Mod", value, power, fmod=0))
    negative = call("Less", value, scalar(0, wide))
    sign = call("Where", negative, scalar(-1, wide), scalar(0, wide))
    chosen = call("Where", _is_between(amount, last, wide), call("Div", below, power), sign)
    return stored(chosen, wide, own)


def _power_of_two(exponent: Part, last: int, dtype: str) -> OnnxCall:
    table = np.left_shift(np.ones(last + 1, numpy_dtype(dtype)), np.arange(last + 1))
    position = call("Clip", exponent, scalar(0, dtype), scalar(last, dtype))
    return call("Gather", table.astype(numpy_dtype(dtype)), position)


def _is_between(value: Part, last: int, dtype: str) -> OnnxCall:
    positive = call("GreaterOrEqual", value, scalar(0, dtype))
    return call("And", positive, call("LessOrEqual", value, scalar(last, dtype)))


_SPECIAL: Final[Mapping[str, Callable[[Given], OnnxCall]]] = {
    "ne": _not_equal,
    "prelu": _prelu,
    "div": _divide,
    "mod": _mod,
    "trunc_mod": _trunc_mod,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
}
