"""What is known of a value before any data: a number, that it is finite, or nothing.

Inputs are taken for finite, and so is what functions and operators make of finite numbers wherever
that does not depend on them: an overflow, or a division by a zero of the data, is left out.  A zero
is not of the data where a mask selects it, where a sum has no terms, or at some position.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

import numpy as np

from sketch.lang.dtypes import is_float
from sketch.lang.expr import Axis, Binary, Cast, Const, Expr, Load, Select, Unary
from sketch.lang.operator_names import FLOAT_CALLS
from sketch.lang.scalar_functions import UNARY_FUNCTIONS


class Knowledge(Enum):
    """Of a value that is not the same for all data.

    ``DATA``: finite, and zero only where the data make it so; ``FINITE``: it may be zero anyway.
    """

    DATA = auto()
    FINITE = auto()
    NOTHING = auto()


Value = float | Knowledge

# Finite for all finite operands: never zero, zero where the operand is, zero elsewhere too.
_NEVER_ZERO: Final = ("exp", "sigmoid")
_LIKE_OPERAND: Final = ("neg", "abs", "expm1", "tanh", "erf")
_FINITE: Final = ("sin", "cos", "floor", "ceil", "round", "trunc")


def known_value(
    expr: Expr, element: Callable[[Load], Value], truth: Callable[[Expr], bool | None]
) -> Value:
    """What is known of an expression.

    Args:
        expr: of a stage.
        element: what is known of an element of a tensor.
        truth: whether a condition holds; None where that depends.
    """
    memo: dict[int, Value] = {}

    def visit(node: Expr) -> Value:
        found = memo.get(id(node))
        if found is None:
            leaf = _leaf(node, element)
            found = memo[id(node)] = operator(node) if leaf is None else leaf
        return found

    def operator(node: Expr) -> Value:
        match node:
            case Cast(operand, dtype):
                return _cast(visit(operand), dtype)
            case Unary(op, operand):
                return _unary(op, visit(operand))
            case Binary(op, lhs, rhs):
                return _binary(op, visit(lhs), visit(rhs))
            case Select(condition, then, otherwise):
                verdict = truth(condition)
                if verdict is not None:
                    return visit(then if verdict else otherwise)
                return either(visit(then), visit(otherwise))
            case _:
                return Knowledge.NOTHING

    return visit(expr)


def _leaf(node: Expr, element: Callable[[Load], Value]) -> Value | None:
    match node:
        case Const(value):
            return _number(float(value))
        case Axis():
            return Knowledge.FINITE  # the first place is zero
        case Load():
            return element(node)
        case _:
            return None


def is_finite(value: Value) -> bool:
    """Whether a value is a finite number, known or not."""
    if isinstance(value, Knowledge):
        return value is not Knowledge.NOTHING
    return math.isfinite(value)


def is_nonzero(value: Value) -> bool:
    """Whether a finite value is zero only where the data make it so."""
    return value is Knowledge.DATA or (is_finite(value) and value not in (0.0, Knowledge.FINITE))


def either(lhs: Value, rhs: Value) -> Value:
    """What is known of a value that is one of two."""
    if lhs == rhs:
        return lhs
    if not (is_finite(lhs) and is_finite(rhs)):
        return Knowledge.NOTHING
    return Knowledge.DATA if is_nonzero(lhs) and is_nonzero(rhs) else Knowledge.FINITE


def _number(value: float) -> Value:
    return Knowledge.NOTHING if math.isnan(value) else value


def _cast(value: Value, dtype: str) -> Value:
    if is_float(dtype):
        return value
    return Knowledge.FINITE if is_finite(value) else Knowledge.NOTHING


def _unary(op: str, value: Value) -> Value:
    if isinstance(value, float):
        if op != "neg" and op not in FLOAT_CALLS:
            return Knowledge.NOTHING
        with np.errstate(all="ignore"):
            return _number(float(UNARY_FUNCTIONS[op](np.asarray(value))))
    if value is Knowledge.NOTHING or op in _LIKE_OPERAND:
        return value
    if op in _NEVER_ZERO:
        return Knowledge.DATA
    return Knowledge.FINITE if op in _FINITE else Knowledge.NOTHING


def _binary(op: str, lhs: Value, rhs: Value) -> Value:
    if Knowledge.NOTHING in (lhs, rhs):
        return Knowledge.NOTHING
    match op:
        case "add":
            return _sum(lhs, rhs)
        case "sub":
            return _sum(lhs, _unary("neg", rhs))
        case "mul":
            return _product(lhs, rhs)
        case "div":
            return _product(lhs, _reciprocal(rhs))
        case _:
            return Knowledge.NOTHING


def _sum(lhs: Value, rhs: Value) -> Value:
    if isinstance(lhs, float) and isinstance(rhs, float):
        return _number(lhs + rhs)
    endless = [value for value in (lhs, rhs) if not is_finite(value)]
    if endless:
        return endless[0]
    # What is added to itself may leave nothing, a number does not.
    known = isinstance(lhs, float) or isinstance(rhs, float)
    return Knowledge.DATA if known and Knowledge.DATA in (lhs, rhs) else Knowledge.FINITE


def _product(lhs: Value, rhs: Value) -> Value:
    if isinstance(lhs, float) and isinstance(rhs, float):
        return _number(lhs * rhs)
    if not (is_finite(lhs) and is_finite(rhs)):
        return Knowledge.NOTHING
    if 0.0 in (lhs, rhs):
        return 0.0
    return Knowledge.DATA if is_nonzero(lhs) and is_nonzero(rhs) else Knowledge.FINITE


def _reciprocal(value: Value) -> Value:
    if isinstance(value, float):
        return 1.0 / value if value else Knowledge.NOTHING
    return value if value is Knowledge.DATA else Knowledge.NOTHING
