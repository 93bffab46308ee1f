"""Calls of the operators of elements and of reductions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from autosched.graph.ops.activation import Activation
from autosched.graph.ops.elementwise import (
    BinaryOp,
    CastOp,
    Clip,
    Identity,
    LeakyRelu,
    UnaryOp,
    Where,
)
from autosched.graph.ops.norm import BatchNorm, GroupNormalize, LocalResponseNorm, Normalize
from autosched.graph.ops.reduce import ArgReduce, Cumulative, ReduceOp
from autosched.graph.ops.shape import Copy
from autosched.graph.ops.softmax import Hardmax, Softmax
from tests.support.exported_operands import FEW, INTEGERS, MAP, Case, Fixed, floats, numbers, truth

_BITS: Final = ("bit_and", "bit_or", "bit_xor")
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")


PLAIN: Final = (
    "relu", "sigmoid", "exp", "expm1", "erf", "abs", "neg", "sign", "floor", "ceil", "round",
    "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "is_nan", "is_inf",
)  # fmt: skip
SPECIAL: Final = np.array([[np.nan, np.inf, -np.inf], [0, -0.0, 2.5]], np.float32)


def _unary() -> Iterator[Case]:
    for name in PLAIN:
        yield UnaryOp(name), (FEW,)  # type: ignore[arg-type]
    for name in ("log", "log1p", "sqrt", "rsqrt", "reciprocal"):
        yield UnaryOp(name), (np.abs(FEW) + 0.1,)  # type: ignore[arg-type]
    for name in ("asin", "acos", "atanh"):
        yield UnaryOp(name), (np.tanh(FEW) * 0.9,)  # type: ignore[arg-type]
    yield UnaryOp("acosh"), (np.abs(FEW) + 1,)
    yield UnaryOp("not"), (truth(3, 4),)
    for test in ("is_nan", "is_inf"):
        yield UnaryOp(test), (SPECIAL,)  # type: ignore[arg-type]
    yield UnaryOp("is_inf"), (SPECIAL.astype(np.float16),)
    for dtype in INTEGERS:
        for name in ("relu", "abs", "neg", "sign", "bit_not"):
            yield UnaryOp(name), (numbers(-9, 9, (3, 4), dtype),)  # type: ignore[arg-type]


def _elementwise() -> Iterator[Case]:
    yield from ((Clip(low, high), (FEW,)) for low, high in ((-0.5, 0.5), (None, 0.1), (0.0, None)))
    for dtype in INTEGERS:
        yield Clip(2, 5), (numbers(0, 9, (3, 4), dtype),)
        yield Clip(0.5, None), (numbers(0, 9, (3, 4), dtype),)
        yield CastOp("float32"), (numbers(-99, 99, (3, 4), dtype),)
        yield CastOp("int8"), (numbers(-999, 999, (3, 4), dtype),)
        yield CastOp(dtype), (np.abs(FEW) * 9,)
        yield CastOp(dtype), (np.clip(FEW * 2000, -(2**30), 2**30),)
    yield CastOp("bool"), (SPECIAL,)
    yield CastOp("int8"), (FEW.astype(np.float16) * 99,)
    yield CastOp("float64"), (FEW,)
    yield CastOp("float16"), (FEW,)
    yield LeakyRelu(0.1), (FEW,)
    yield Identity(), (FEW,)
    yield Copy(), (FEW,)
    for dtype in ("float32", "float64", "bool", *INTEGERS):
        pair = numbers(0, 2, (2, 4, 5), dtype)
        yield Where(), (truth(3, 4, 1), pair[0], pair[1])


def _activation() -> Iterator[Case]:
    wide = FEW * 4
    for name in (
        "gelu",
        "gelu_tanh",
        "hard_swish",
        "mish",
        "softplus",
        "softsign",
        "swish",
        "selu",
    ):
        yield Activation(name), (wide,)  # type: ignore[arg-type]
        yield Activation(name), (wide.astype(np.float16),)  # type: ignore[arg-type]
    for name in ("elu", "celu", "thresholded_relu", "swish"):
        yield Activation(name, (0.7,)), (wide,)  # type: ignore[arg-type]
    yield Activation("selu", (1.5, 1.1)), (wide,)
    yield Activation("hard_sigmoid", (0.3, 0.4)), (wide,)
    yield Activation("shrink", (0.5, 0.2)), (wide,)
    yield Activation("shrink", (2.5, 1.0)), (numbers(-9, 9, (3, 4), "int32"),)


def _binary() -> Iterator[Case]:
    for name in ("add", "sub", "mul", "max", "min", "mod", "trunc_mod", *_COMPARISONS):
        yield BinaryOp(name), (FEW.round(1), floats(4, 1).round(1))  # type: ignore[arg-type]
    yield BinaryOp("div"), (FEW, np.abs(floats(5)) + 1)
    yield BinaryOp("pow"), (np.abs(FEW), floats(5))
    for slope in (floats(5), floats(4, 1), floats(2, 3, 4, 5)):
        yield BinaryOp("prelu"), (FEW, slope)
    for name in ("and", "or", *_COMPARISONS):
        yield BinaryOp(name), (truth(4, 5), truth(5))  # type: ignore[arg-type]
    for dtype in INTEGERS:
        yield from _of_integers(dtype)


def _of_integers(dtype: str) -> Iterator[Case]:
    limits = np.iinfo(dtype)
    lowest = max(int(limits.min), -(2**40))
    edge = [lowest, lowest, lowest + 1, int(limits.max), 7, 0, 5, 100]
    lhs = np.array([edge], dtype).T
    rhs = np.array([0, 1, 3, 7, *((-1, -2, -7) if lowest else ())]).astype(dtype)
    for name in ("add", "sub", "mul", "max", "min", "prelu", *_COMPARISONS, *_BITS):
        yield BinaryOp(name), (lhs, rhs)  # type: ignore[arg-type]
    for name in ("div", "mod", "trunc_mod"):
        yield BinaryOp(name), (lhs, rhs)  # type: ignore[arg-type]
        yield BinaryOp(name), (lhs, Fixed(np.full(3, 7, dtype)))  # type: ignore[arg-type]
    bits = 8 * np.dtype(dtype).itemsize
    by = np.array([0, 1, bits - 2, bits - 1, bits, *((-1,) if lowest else ())]).astype(dtype)
    yield BinaryOp("shift_left"), (lhs, by)
    yield BinaryOp("shift_right"), (lhs, by)
    yield BinaryOp("pow"), (numbers(0, 3, (3, 4), dtype), numbers(0, 4, (4,), dtype))


def _reductions() -> Iterator[Case]:
    for function in ("sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum_exp"):
        yield ReduceOp(function, (0, 2)), (FEW,)  # type: ignore[arg-type]
        yield ReduceOp(function, (1,), True), (FEW.astype(float),)  # type: ignore[arg-type]
    yield ReduceOp("log_sum", (1,)), (np.abs(FEW),)
    for dtype in INTEGERS:
        data = numbers(-2, 3, (3, 4, 5), dtype)
        for function in ("sum", "max", "min", "prod", "l1", "sum_square"):
            yield ReduceOp(function, (1, 2)), (data,)  # type: ignore[arg-type]
        yield ArgReduce("max", 1), (data,)
        yield ArgReduce("min", 2, True, True), (data,)
        yield Cumulative("sum", 1), (data,)
        yield Cumulative("prod", 2, True), (data,)
    for function in ("max", "min"):
        yield ReduceOp(function, (1,)), (truth(3, 2, 4),)  # type: ignore[arg-type]
    ties = FEW.round()
    for last in (False, True):
        yield ArgReduce("max", 2, last=last), (ties,)
    for exclusive in (False, True):
        for reverse in (False, True):
            yield Cumulative("sum", -1, exclusive, reverse), (FEW,)
            yield Cumulative("prod", 1, exclusive, reverse), (FEW,)
    for axis in (-1, 0, 1):
        yield Softmax(axis), (FEW,)
        yield Softmax(axis, True), (FEW,)
        yield Hardmax(axis), (ties,)
        yield Hardmax(axis), (ties.astype(float),)


def _normalised() -> Iterator[Case]:
    positive = np.abs(floats(6)) + 0.1
    yield BatchNorm(1e-3), (MAP, floats(6), floats(6), floats(6), positive)
    for axes in ((3,), (2, 3), (1, 2, 3), (0,), (1,)):
        for centered in (False, True):
            yield Normalize(axes, 1e-3, centered), (MAP,)
            yield Normalize(axes, 1e-3, centered), (MAP.astype(np.float64),)
    for groups in (1, 2):
        yield GroupNormalize(groups, 1e-3), (floats(2, 3, 5, 4),)
        yield GroupNormalize(groups, 1e-3), (floats(2, 5, 4).astype(np.float64),)
    for axis, size in ((1, 3), (-1, 5), (2, 4), (0, 1)):
        yield LocalResponseNorm(size, 0.3, 0.6, 1.5, axis), (MAP,)
    yield LocalResponseNorm(3, 0.3, 0.6, 1.5), (FEW,)


CASES: Final = {
    "unary": _unary,
    "elementwise": _elementwise,
    "activation": _activation,
    "binary": _binary,
    "reductions": _reductions,
    "normalised": _normalised,
}
"""By group."""
