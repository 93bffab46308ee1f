"""Elementary functions of one scalar expression: ``exp(A[i, j])``."""

from typing import Any

from sketch.expr import Expr, unary


def exp(value: Any) -> Expr:
    """``e ** value``."""
    return unary("exp", value)


def log(value: Any) -> Expr:
    """Natural logarithm; NaN below zero, minus infinity at zero."""
    return unary("log", value)


def sqrt(value: Any) -> Expr:
    """Square root; NaN below zero."""
    return unary("sqrt", value)


def rsqrt(value: Any) -> Expr:
    """``1 / sqrt(value)``."""
    return unary("rsqrt", value)


def tanh(value: Any) -> Expr:
    """Hyperbolic tangent."""
    return unary("tanh", value)


def erf(value: Any) -> Expr:
    """Gauss error function."""
    return unary("erf", value)


def sigmoid(value: Any) -> Expr:
    """``1 / (1 + exp(-value))``."""
    return unary("sigmoid", value)


def floor(value: Any) -> Expr:
    """The largest whole number that is not above ``value``, as a float."""
    return unary("floor", value)


def ceil(value: Any) -> Expr:
    """The smallest whole number that is not below ``value``, as a float."""
    return unary("ceil", value)


def abs(value: Any) -> Expr:
    """Absolute value, of floats and integers."""
    return unary("abs", value)
