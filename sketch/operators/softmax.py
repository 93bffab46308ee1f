"""Softmax, in the form that does not overflow."""

from __future__ import annotations

from collections.abc import Sequence

from sketch import expr
from sketch.expr import Axis, Expr, unary
from sketch.operators import reduction
from sketch.operators.layout import stage
from sketch.tensor import Tensor


def softmax(data: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``; four stages.

    The three inner stages are ``<name>.max``, ``<name>.exp`` and ``<name>.sum``.
    """
    dimension = axis % data.ndim
    top = reduction.max(data, dimension, True, f"{name}.max")
    powers = stage(
        data.shape,
        lambda axes: unary("exp", data[axes] - _row(top, axes, dimension)),
        f"{name}.exp",
    )
    total = reduction.sum(powers, dimension, True, f"{name}.sum")
    return stage(data.shape, lambda axes: powers[axes] / _row(total, axes, dimension), name)


def log_softmax(data: Tensor, axis: int = -1, name: str = "log_softmax") -> Tensor:
    """``x - max - log(sum(exp(x - max)))`` along ``axis``."""
    dimension = axis % data.ndim
    top = reduction.max(data, dimension, True, f"{name}.max")
    powers = stage(
        data.shape,
        lambda axes: unary("exp", data[axes] - _row(top, axes, dimension)),
        f"{name}.exp",
    )
    total = reduction.sum(powers, dimension, True, f"{name}.sum")

    def element(axes: tuple[Axis, ...]) -> Expr:
        shifted = data[axes] - _row(top, axes, dimension)
        return shifted - unary("log", _row(total, axes, dimension))

    return stage(data.shape, element, name)


def _row(reduced: Tensor, axes: Sequence[Axis], dimension: int) -> Expr:
    zero = expr.as_expr(0)
    return reduced[tuple(zero if d == dimension else axis for d, axis in enumerate(axes))]
