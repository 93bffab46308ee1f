"""Activation functions of one scalar expression, by their names in the literature.

Written so that no intermediate value overflows where the result does not.
"""

from __future__ import annotations

import math
from typing import Final

from sketch.lang.dtypes import is_float
from sketch.lang.expr import Expr, cast, select, unary
from sketch.lang.functions import maximum, minimum

SELU_ALPHA: Final = 1.67326319217681884765625
SELU_GAMMA: Final = 1.05070102214813232421875


def relu(x: Expr) -> Expr:
    """``max(x, 0)``."""
    return maximum(x, 0)


def leaky_relu(x: Expr, slope: float) -> Expr:
    """``x`` where positive, else ``slope * x``."""
    return select(x > 0, x, x * slope)


def prelu(x: Expr, slope: Expr) -> Expr:
    """``x`` where not negative, else ``slope * x``, with a learned slope."""
    return select(x < 0, x * slope, x)


def elu(x: Expr, alpha: float) -> Expr:
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
    return select(x > 0, x, unary("expm1", x) * alpha)


def selu(x: Expr, alpha: float = SELU_ALPHA, gamma: float = SELU_GAMMA) -> Expr:
    """``gamma * elu(x, alpha)``."""
    return elu(x, alpha) * gamma


def celu(x: Expr, alpha: float) -> Expr:
    """``x`` where positive, else ``alpha * (exp(x / alpha) - 1)``."""
    return select(x > 0, x, unary("expm1", x * (1 / alpha)) * alpha)


def gelu(x: Expr) -> Expr:
    """``x / 2 * (1 + erf(x / sqrt(2)))``."""
    return x * 0.5 * (unary("erf", x * math.sqrt(0.5)) + 1)


def gelu_tanh(x: Expr) -> Expr:
    """``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))``."""
    inner = x * (x * x * 0.044715 + 1) * math.sqrt(2 / math.pi)
    return x * 0.5 * (unary("tanh", inner) + 1)


def hard_sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    """``min(max(alpha * x + beta, 0), 1)``."""
    return minimum(maximum(x * alpha + beta, 0), 1)


def hard_swish(x: Expr) -> Expr:
    """``x * min(max(x + 3, 0), 6) / 6``."""
    return x * (minimum(maximum(x + 3, 0), 6) * (1 / 6))


def softplus(x: Expr) -> Expr:
    """``log(1 + exp(x))``."""
    return maximum(x, 0) + unary("log1p", unary("exp", -unary("abs", x)))


def softsign(x: Expr) -> Expr:
    """``x / (1 + |x|)``."""
    return x / (unary("abs", x) + 1)


def mish(x: Expr) -> Expr:
    """``x * tanh(softplus(x))``."""
    return x * unary("tanh", softplus(x))


def swish(x: Expr, alpha: float = 1.0) -> Expr:
    """``x * sigmoid(alpha * x)``; SiLU for alpha 1."""
    return x * unary("sigmoid", x if alpha == 1 else x * alpha)


def thresholded_relu(x: Expr, threshold: float) -> Expr:
    """``x`` above ``threshold``, else 0."""
    return select(x > threshold, x, 0)


def shrink(x: Expr, threshold: float, bias: float) -> Expr:
    """``x - bias`` above ``threshold``, ``x + bias`` below ``-threshold``, else 0.

    Integers are computed as float64 and truncated.
    """
    wide = x if is_float(x.dtype) else cast(x, "float64")
    low = select(wide < -threshold, wide + bias, 0)
    return cast(select(wide > threshold, wide - bias, low), x.dtype)
