"""Converters of element-wise operators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from autosched.graph.ops.elementwise import (
    BinaryFunction,
    BinaryOp,
    CastOp,
    Clip,
    Identity,
    UnaryFunction,
    UnaryOp,
    Where,
)
from autosched.graph.ops.movement import Expand
from autosched.torch_frontend.accurate import is_root
from autosched.torch_frontend.aten.call import AtenCall, Converter
from sketch.lang.dtypes import SUPPORTED, is_float

_UNARY: Final[Mapping[str, UnaryFunction]] = {
    "relu": "relu", "sigmoid": "sigmoid", "exp": "exp", "log": "log", "sqrt": "sqrt", "erf": "erf",
    "abs": "abs", "neg": "neg", "reciprocal": "reciprocal", "sin": "sin", "cos": "cos",
    "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "expm1": "expm1",
    "log1p": "log1p",
}  # fmt: skip
_ROUNDING: Final[Mapping[str, UnaryFunction]] = {"floor": "floor", "ceil": "ceil", "round": "round"}
_ARITHMETIC: Final[Mapping[str, BinaryFunction]] = {
    "maximum.default": "max", "minimum.default": "min", "remainder.Tensor": "mod",
    "remainder.Scalar": "mod", "fmod.Tensor": "trunc_mod", "fmod.Scalar": "trunc_mod",
}  # fmt: skip
_SCALING: Final[Mapping[str, BinaryFunction]] = {
    "mul.Tensor": "mul", "mul.Scalar": "mul", "div.Tensor": "div", "div.Scalar": "div",
}  # fmt: skip
_COMPARISONS: Final[Mapping[str, BinaryFunction]] = {
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
}  # fmt: skip
_LOGIC: Final[Mapping[str, BinaryFunction]] = {
    "logical_and.default": "and", "logical_or.default": "or", "logical_xor.default": "ne",
}  # fmt: skip
_OF_TRUTH: Final[Mapping[BinaryFunction, BinaryFunction]] = {  # torch knows no differences
    "add": "or", "mul": "and", "max": "or", "min": "and",
}  # fmt: skip
_OF_BITS: Final[Mapping[BinaryFunction, BinaryFunction]] = {  # those of truth values
    "bit_and": "and", "bit_or": "or", "bit_xor": "ne",
}  # fmt: skip
_BITS: Final[Mapping[str, BinaryFunction]] = {
    "and": "bit_and", "or": "bit_or", "xor": "bit_xor",
}  # fmt: skip
_SHIFTS: Final[Mapping[str, BinaryFunction]] = {"left": "shift_left", "right": "shift_right"}
_SORTS: Final = "Tensor", "Scalar"  # of operators by their second operand
_LIMITS: Final[Mapping[str, BinaryFunction]] = {"min": "max", "max": "min"}  # roles of clamp
_OPERANDS: Final = "self", "other"
_SIDES: Final[tuple[BinaryFunction, ...]] = ("gt", "lt")  # of zero
_BOOL: Final = "bool"
_HALF: Final = "float16"
_WIDE: Final = "float32"
_LARGEST: Final = float(np.finfo(np.float16).max)
_TINY: Final = float(np.finfo(np.float16).tiny)


def _unary(function: UnaryFunction, call: AtenCall) -> str:
    """Integers become floats where the result is one."""
    return call.add(UnaryOp(function), call.operand("self", call.dtype))


def _rsqrt(call: AtenCall) -> str:
    root = call.add(UnaryOp("sqrt"), call.operand("self", call.dtype))
    return call.add(UnaryOp("reciprocal"), root)


def _sign(call: AtenCall) -> str:
    """NaN has the sign 0 for torch."""
    data = call.value("self")
    if not is_float(call.dtype):
        return call.add(UnaryOp("sign"), data)
    sides = [
        call.add(CastOp(call.dtype), call.add(BinaryOp(test), data, call.number(0, call.dtype)))
        for test in _SIDES
    ]
    return call.add(BinaryOp("sub"), *sides)


def _rounding(function: UnaryFunction, call: AtenCall) -> str:
    """Integers are round."""
    data = call.value("self")
    return call.add(UnaryOp(function) if is_float(call.dtype) else Identity(), data)


def _test(function: UnaryFunction, call: AtenCall) -> str:
    """Integers are neither infinite nor without a value."""
    data = call.value("self")
    if not is_float(call.type_of(data).dtype):
        return _filled_with(0, call)
    return call.add(UnaryOp(function), data)


def _logical_not(call: AtenCall) -> str:
    data = call.value("self")
    call.require(call.type_of(data).dtype == _BOOL, "numbers as truth values")
    return call.add(UnaryOp("not"), data)


def _arithmetic(function: BinaryFunction, call: AtenCall) -> str:
    operands = [call.operand(role, call.dtype) for role in _OPERANDS]
    return call.add(BinaryOp(_OF_TRUTH[function] if call.dtype == _BOOL else function), *operands)


def _scaled(function: BinaryFunction, call: AtenCall) -> str:
    """Torch has factors in float32 that float16 does not hold; the first operand it rounds."""
    if call.dtype != _HALF or is_half(call["other"]):
        return _arithmetic(function, call)
    first = call.add(CastOp(_WIDE), call.operand("self", _HALF))
    operands = first, call.operand("other", _WIDE)
    return call.add(CastOp(_HALF), call.add(BinaryOp(function), *operands))


def is_half(operand: Any) -> bool:
    """Whether float16 has such numbers, neither too large nor too small, or torch rounds them."""
    if not isinstance(operand, float | int):
        return bool(operand.shape) or _dtype_name(operand) == _HALF
    return operand == 0 or not math.isfinite(operand) or _TINY <= abs(operand) <= _LARGEST


def _dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _sum(function: BinaryFunction, reverse: bool, call: AtenCall) -> str:
    """``self + alpha * other``, or the difference; ``other - alpha * self`` if ``reverse``."""
    if call.dtype == _BOOL:
        call.require(call["alpha"] == 1, "a scaled sum of truth values")
        return _arithmetic(function, call)
    first, second = ("other", "self") if reverse else ("self", "other")
    operand = call.operand(second, call.dtype)
    if call["alpha"] != 1:
        operand = call.add(BinaryOp("mul"), operand, call.number(call["alpha"], call.dtype))
    return call.add(BinaryOp(function), call.operand(first, call.dtype), operand)


def _compare(function: BinaryFunction, call: AtenCall) -> str:
    """In the dtype that both operands are promoted to."""
    import torch

    dtype = str(torch.result_type(call.fakes["self"], call.fakes["other"])).removeprefix("torch.")
    call.require(dtype != _BOOL or function in ("eq", "ne"), "an order of truth values")
    operands = call.operand("self", dtype), call.operand("other", dtype)
    return call.add(BinaryOp(function), *operands)


def _logic(function: BinaryFunction, call: AtenCall) -> str:
    operands = call.values("self", "other")
    call.require(all(call.type_of(v).dtype == _BOOL for v in operands), "numbers as truth values")
    return call.add(BinaryOp(function), *operands)


def _bits(function: BinaryFunction, call: AtenCall) -> str:
    """In the dtype of the result; shifts by less than 0 and by the width are torch's, too."""
    operands = call.operand("self", call.dtype), call.operand("other", call.dtype)
    of_bools = call.dtype == _BOOL
    return call.add(BinaryOp(_OF_BITS[function] if of_bools else function), *operands)


def _bitwise_not(call: AtenCall) -> str:
    return call.add(UnaryOp("not" if call.dtype == _BOOL else "bit_not"), call.value("self"))


def _power(call: AtenCall) -> str:
    exponent, data = call["exponent"], call.operand("self", call.dtype)
    call.require(is_float(call.dtype), "a power of integers")
    if exponent == 2:
        return call.add(BinaryOp("mul"), data, data)
    if exponent == 3:
        return call.add(BinaryOp("mul"), call.add(BinaryOp("mul"), data, data), data)
    if is_root(exponent, call.dtype):  # torch has no other numbers at -0 and -infinity
        root = call.add(UnaryOp("sqrt"), data)
        return root if exponent == 0.5 else call.add(UnaryOp("reciprocal"), root)
    return call.add(BinaryOp("pow"), data, call.number(exponent, call.dtype))


def _power_of_tensors(call: AtenCall) -> str:
    call.require(is_float(call.dtype), "a power of integers")
    operands = call.operand("self", call.dtype), call.operand("exponent", call.dtype)
    return call.add(BinaryOp("pow"), *operands)


def _clamp_by_tensors(call: AtenCall) -> str:
    data = call.operand("self", call.dtype)
    for role, function in _LIMITS.items():
        if call.given.get(role) is not None:
            data = call.add(BinaryOp(function), data, call.operand(role, call.dtype))
    return data


def _trunc(call: AtenCall) -> str:
    """Rounded to zero."""
    data = call.value("self")
    call.require(is_float(call.dtype), "integers that are whole anyway")
    below = call.add(BinaryOp("lt"), data, call.number(0, call.dtype))
    rounded = (call.add(UnaryOp(function), data) for function in ("ceil", "floor"))
    return call.add(Where(), below, *rounded)


def _filled(role: str, call: AtenCall) -> str:
    """A tensor of the shape of another, one number everywhere."""
    number = call.number(call[role], call.dtype)
    return call.add(Expand(call.shape("self")), number)


def _filled_with(number: float, call: AtenCall) -> str:
    return call.add(Expand(call.shape("self")), call.number(number, call.dtype))


def _where(call: AtenCall) -> str:
    condition = call.value("condition")
    return call.add(
        Where(), condition, call.operand("self", call.dtype), call.operand("other", call.dtype)
    )


def _masked_fill(call: AtenCall) -> str:
    mask, data = call.value("mask"), call.operand("self", call.dtype)
    return call.add(Where(), mask, call.operand("value", call.dtype), data)


def _identity(call: AtenCall) -> str:
    return call.add(Identity(), call.value("self"))


def _to_copy(call: AtenCall) -> str:
    """Another dtype; memory formats are no matter of values."""
    call.require(call.dtype in SUPPORTED, f"a conversion to {call.dtype}")
    return _converted(call, "self")


def _converted(call: AtenCall, role: str) -> str:
    """A tensor in the dtype of the result."""
    data = call.value(role)
    fits = is_float(call.dtype) or call.dtype == _BOOL
    call.require(fits or not is_float(call.type_of(data).dtype), "numbers that may not fit")
    return call.add(CastOp(call.dtype), data)


def _copy(call: AtenCall) -> str:
    """Another tensor, as large and of the dtype as the one that it is written to."""
    data, whole = _converted(call, "src"), call.shape("self")
    return data if call.type_of(data).shape == whole else call.add(Expand(whole), data)


def _clamp(low: str, high: str, call: AtenCall) -> str:
    limits = [call[low], call[high]]
    call.require(all(v is None or not math.isnan(v) for v in limits), "limits that are no numbers")
    lower, upper = (None if limit is None else call.stored(limit) for limit in limits)
    if call[low] is not None and call[high] is not None and call[low] > call[high]:
        lower = upper  # torch says that the upper one wins
    data = call.operand("self", call.dtype)
    if is_float(call.dtype):
        return call.add(Clip(lower, upper), data)
    for function, limit in zip(_LIMITS.values(), (lower, upper), strict=True):
        if limit is not None:
            data = call.add(BinaryOp(function), data, call.number(limit, call.dtype))
    return data


def _overloads(names: Mapping[str, BinaryFunction], *sorts: str) -> dict[str, BinaryFunction]:
    return {f"{name}.{sort}": function for name, function in names.items() for sort in sorts}


def _bit_operators() -> dict[str, BinaryFunction]:
    """Shifts that are written as Python's signs are operators of their own for torch."""
    bits = {f"bitwise_{name}": function for name, function in _BITS.items()}
    signs = {f"__{side[0]}shift__": function for side, function in _SHIFTS.items()}
    shifts = {f"bitwise_{side}_shift": function for side, function in _SHIFTS.items()}
    return {
        **_overloads(bits, *_SORTS, "Scalar_Tensor"),
        **_overloads(signs, *_SORTS),
        **_overloads(shifts, "Tensor", "Tensor_Scalar", "Scalar_Tensor"),
    }


ELEMENTWISE: Final[Mapping[str, Converter]] = {
    **{f"{name}.default": partial(_unary, function) for name, function in _UNARY.items()},
    **{f"{name}.default": partial(_rounding, function) for name, function in _ROUNDING.items()},
    **{name: partial(_arithmetic, function) for name, function in _ARITHMETIC.items()},
    **{name: partial(_scaled, function) for name, function in _SCALING.items()},
    **{
        name: partial(_compare, function)
        for name, function in _overloads(_COMPARISONS, *_SORTS).items()
    },
    **{name: partial(_logic, function) for name, function in _LOGIC.items()},
    **{name: partial(_bits, function) for name, function in _bit_operators().items()},
    "_to_copy.default": _to_copy,
    "add.Tensor": partial(_sum, "add", False),
    "add.Scalar": partial(_sum, "add", False),
    "alias.default": _identity,
    "bitwise_not.default": _bitwise_not,
    "clamp.default": partial(_clamp, "min", "max"),
    "clamp.Tensor": _clamp_by_tensors,
    "clamp_max.Tensor": _clamp_by_tensors,
    "clamp_min.Tensor": _clamp_by_tensors,
    "clone.default": _identity,
    "copy.default": _copy,
    "detach.default": _identity,
    "fill.Scalar": partial(_filled, "value"),
    "full_like.default": partial(_filled, "fill_value"),
    "hardtanh.default": partial(_clamp, "min_val", "max_val"),
    "isinf.default": partial(_test, "is_inf"),
    "isnan.default": partial(_test, "is_nan"),
    "logical_not.default": _logical_not,
    "masked_fill.Scalar": _masked_fill,
    "masked_fill.Tensor": _masked_fill,
    "ones_like.default": partial(_filled_with, 1),
    "pow.Scalar": _power_of_tensors,
    "pow.Tensor_Scalar": _power,
    "pow.Tensor_Tensor": _power_of_tensors,
    "rsqrt.default": _rsqrt,
    "sign.default": _sign,
    "rsub.Scalar": partial(_sum, "sub", True),
    "rsub.Tensor": partial(_sum, "sub", True),
    "sub.Scalar": partial(_sum, "sub", False),
    "sub.Tensor": partial(_sum, "sub", False),
    "trunc.default": _trunc,
    "where.self": _where,
    "zeros_like.default": partial(_filled_with, 0),
}
