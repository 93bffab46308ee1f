"""Element-wise operators of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sketch.errors import ExpressionError
from sketch.lang import expr
from sketch.lang.dtypes import AnyDtype
from sketch.lang.expr import Expr, unary
from sketch.lang.functions import maximum, minimum
from sketch.lang.tensor import Tensor
from sketch.operators import activations
from sketch.operators.layout import stage


def map_elements(data: Tensor, function: Callable[[Expr], Any], name: str) -> Tensor:
    """``function`` of every element."""
    return stage(data.shape, lambda axes: function(data[axes]), name)


def relu(data: Tensor, name: str = "relu") -> Tensor:
    """``max(x, 0)``."""
    return map_elements(data, activations.relu, name)


def leaky_relu(data: Tensor, slope: float, name: str = "leaky_relu") -> Tensor:
    """``x`` where positive, else ``slope * x``."""
    return map_elements(data, lambda x: activations.leaky_relu(x, slope), name)


def clip(data: Tensor, low: float, high: float, name: str = "clip") -> Tensor:
    """``min(max(x, low), high)``; ReLU6 is ``clip(x, 0, 6)``.

    Args:
        data: numbers.
        low: least value of the result.
        high: largest value of the result.
        name: of the stage.

    Raises:
        ExpressionError: ``low`` is above ``high``.
    """
    if low > high:
        raise ExpressionError(f"clip from {low} to {high} is empty", f"stage {name}")
    return map_elements(data, lambda x: minimum(maximum(x, low), high), name)


def negative(data: Tensor, name: str = "negative") -> Tensor:
    """``-x``."""
    return map_elements(data, lambda x: -x, name)


def absolute(data: Tensor, name: str = "absolute") -> Tensor:
    """``|x|``."""
    return map_elements(data, lambda x: unary("abs", x), name)


def call(data: Tensor, function: str, name: str | None = None) -> Tensor:
    """An elementary function: exp, log, sqrt, rsqrt, tanh, erf, sigmoid, floor, ceil."""
    return map_elements(data, lambda x: unary(function, x), name or function)


def sigmoid(data: Tensor, name: str = "sigmoid") -> Tensor:
    """``1 / (1 + exp(-x))``."""
    return call(data, "sigmoid", name)


def tanh(data: Tensor, name: str = "tanh") -> Tensor:
    """Hyperbolic tangent."""
    return call(data, "tanh", name)


def exp(data: Tensor, name: str = "exp") -> Tensor:
    """``e ** x``."""
    return call(data, "exp", name)


def hard_sigmoid(
    data: Tensor, alpha: float = 0.2, beta: float = 0.5, name: str = "hard_sigmoid"
) -> Tensor:
    """``min(max(alpha * x + beta, 0), 1)``.

    Args:
        data: floats.
        alpha: slope.
        beta: value at 0.
        name: of the stage.
    """
    return map_elements(data, lambda x: activations.hard_sigmoid(x, alpha, beta), name)


def hard_swish(data: Tensor, name: str = "hard_swish") -> Tensor:
    """``x * min(max(x + 3, 0), 6) / 6``."""
    return map_elements(data, activations.hard_swish, name)


def gelu(data: Tensor, name: str = "gelu") -> Tensor:
    """``x / 2 * (1 + erf(x / sqrt(2)))``."""
    return map_elements(data, activations.gelu, name)


def cast(data: Tensor, dtype: AnyDtype, name: str = "cast") -> Tensor:
    """Conversion; float to integer truncates toward zero."""
    return map_elements(data, lambda x: expr.cast(x, dtype), name)
