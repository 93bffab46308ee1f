"""Forms of element-wise operators: functions of one operand, choices, conversions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from autosched.graph.errors import GraphError
from autosched.graph.ops.activation import Activation
from autosched.graph.ops.elementwise import (
    CastOp,
    Clip,
    Identity,
    LeakyRelu,
    UnaryOp,
    Where,
)
from autosched.graph.ops.shape import Copy
from autosched.onnx.export.terms import (
    NARROW,
    WIDE,
    Given,
    GivenValue,
    OnnxCall,
    Part,
    call,
    cast,
    converted,
    in_wide,
    scalar,
    stored,
)
from autosched.onnx.importer.elementwise import UNARY_OPERATORS
from sketch.lang.dtypes import BOOL, integer_limits, is_float, is_storage_float
from sketch.operators.activations import SELU_ALPHA, SELU_GAMMA

_UNARY_NAMES: Final[Mapping[str, str]] = {
    function: name for name, function in UNARY_OPERATORS.items()
}
_OF_ALL_INTEGERS: Final = ("abs", "sign", "bit_not")


def unary(op: UnaryOp, given: Given) -> OnnxCall:
    """One operator; but 1 / sqrt, functions that keep the digits of small numbers, and infinities
    of 16-bit floats, which are looked for in float32.

    Raises:
        GraphError: ONNX has no such function (``ordinal``, which reads the bits of floats).
    """
    match op.function:
        case "rsqrt":
            return call("Reciprocal", call("Sqrt", given.data))
        case "expm1" | "log1p":
            return _of_small(op.function, given)
        case "is_inf":
            return _is_infinite(given.data, given.data.dtype)
        case function if function not in _UNARY_NAMES:
            raise GraphError(f"{function} has no ONNX form of one operator")
        case function if function in _OF_ALL_INTEGERS:
            return call(_UNARY_NAMES[function], given.data)
        case function:
            return in_wide(_UNARY_NAMES[function], given)


def _is_infinite(data: Part, dtype: str) -> OnnxCall:
    return call("IsInf", converted(data, dtype, "float32" if is_storage_float(dtype) else dtype))


def _of_small(function: str, given: Given) -> OnnxCall:
    """``exp(x) - 1`` and ``log(1 + x)`` by Kahan: both factors have the same rounding error.

    Where that error is all of the result, it is x; where it cannot be divided, the plain form.
    """
    data, dtype = given.data, given.data.dtype
    one = scalar(1, dtype)
    if function == "expm1":
        moved = call("Exp", data)
        plain = call("Sub", moved, one)
        part, whole = call("Log", moved), plain
    else:
        moved = call("Add", data, one)
        plain = call("Log", moved)
        part, whole = call("Sub", moved, one), plain
    accurate = call("Mul", whole, call("Div", data, part))
    lost = call("Or", _is_infinite(moved, dtype), call("Equal", plain, scalar(-1, dtype)))
    kept = call("Where", lost, plain, accurate)
    return call("Where", call("Equal", moved, one), data, kept)


def clip(op: Clip, given: Given) -> OnnxCall:
    """Clip in the type of the result: bounds with a fraction make floats of integers."""
    dtype = given.result.dtype
    low, high = (
        scalar(infinite if bound is None else bound, dtype)
        for bound, infinite in ((op.low, -np.inf), (op.high, np.inf))
    )
    wide = WIDE if dtype == "int16" else dtype  # onnxruntime has none of int16
    data = converted(given.data, given.data.dtype, wide)
    return stored(call("Clip", data, low.astype(wide), high.astype(wide)), wide, dtype)


def leaky_relu(op: LeakyRelu, given: Given) -> OnnxCall:
    """LeakyRelu, in the type of the result."""
    data = converted(given.data, given.data.dtype, given.result.dtype)
    return call("LeakyRelu", data, alpha=op.slope)


def cast_op(op: CastOp, given: Given) -> OnnxCall:
    """Cast; floats are first clipped to the narrow integers, which ours saturate to.

    What it makes of NaN, and of floats beyond int32 and int64, ONNX leaves open.
    """
    own = given.data.dtype
    if not is_float(own) or op.dtype not in NARROW:
        return cast(given.data, op.dtype)
    wide = "float32" if is_storage_float(own) else own
    limits = (scalar(limit, wide) for limit in integer_limits(op.dtype))
    return cast(call("Clip", converted(given.data, own, wide), *limits), op.dtype)


def identity(op: Identity | Copy, given: Given) -> OnnxCall:
    """Identity."""
    return call("Identity", given.data)


def where(op: Where, given: Given) -> OnnxCall:
    """Where; onnxruntime has none of truth values and of int16."""
    condition, then, otherwise = given.operands
    if then.dtype == BOOL:
        chosen, left = call("And", condition, then), call("Not", condition)
        return call("Or", chosen, call("And", left, otherwise))
    wide = WIDE if then.dtype == "int16" else then.dtype
    both = (converted(value, value.dtype, wide) for value in (then, otherwise))
    return stored(call("Where", condition, *both), wide, then.dtype)


def activation(op: Activation, given: Given) -> OnnxCall:
    """One operator, or the formula; bytes and other integers only have ``shrink``."""
    return _ACTIVATIONS[op.function](given.data, *op.parameters)


def _celu(data: GivenValue, alpha: float) -> OnnxCall:
    """Celu itself is of float32 alone."""
    scaled = call("Mul", data, scalar(1 / alpha, data.dtype))
    return call("Mul", call("Elu", scaled), scalar(alpha, data.dtype))


def _gelu(data: GivenValue) -> OnnxCall:
    """Written as exporters do: onnxruntime makes one operator of it."""
    root = call("Div", data, scalar(np.sqrt(2), data.dtype))
    curve = call("Add", call("Erf", root), scalar(1, data.dtype))
    return call("Mul", call("Mul", data, curve), scalar(0.5, data.dtype))


def _gelu_tanh(data: GivenValue) -> OnnxCall:
    """As ``_gelu``."""
    cube = call("Mul", call("Pow", data, scalar(3, data.dtype)), scalar(0.044715, data.dtype))
    inner = call("Mul", call("Add", data, cube), scalar(np.sqrt(2 / np.pi), data.dtype))
    curve = call("Add", call("Tanh", inner), scalar(1, data.dtype))
    return call("Mul", call("Mul", data, scalar(0.5, data.dtype)), curve)


def _swish(data: GivenValue, alpha: float = 1.0) -> OnnxCall:
    scaled = data if alpha == 1 else call("Mul", data, scalar(alpha, data.dtype))
    return call("Mul", data, call("Sigmoid", scaled))


def _selu(data: GivenValue, alpha: float = SELU_ALPHA, gamma: float = SELU_GAMMA) -> OnnxCall:
    return call("Selu", data, alpha=alpha, gamma=gamma)


_ACTIVATIONS: Final[Mapping[str, Callable[..., OnnxCall]]] = {
    "elu": lambda data, alpha: call("Elu", data, alpha=alpha),
    "selu": _selu,
    "celu": _celu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "hard_sigmoid": lambda data, alpha, beta: call("HardSigmoid", data, alpha=alpha, beta=beta),
    "hard_swish": lambda data: call("HardSwish", data),
    "mish": lambda data: call("Mish", data),
    "softplus": lambda data: call("Softplus", data),
    "softsign": lambda data: call("Softsign", data),
    "swish": _swish,
    "thresholded_relu": lambda data, alpha: call("ThresholdedRelu", data, alpha=alpha),
    "shrink": lambda data, threshold, bias: call("Shrink", data, lambd=threshold, bias=bias),
}
