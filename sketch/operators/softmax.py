"""Softmax and its relatives, in the form that does not overflow."""

from __future__ import annotations

from sketch import expr
from sketch.expr import Axis, Expr, equal, select, unary
from sketch.operators import reduction
from sketch.operators.layout import stage
from sketch.operators.normalization import kept
from sketch.tensor import Tensor


def softmax(data: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``; four stages.

    The three inner stages are ``<name>.max``, ``<name>.exp`` and ``<name>.sum``.
    """
    dims = {axis % data.ndim}
    top = reduction.max(data, axis, True, f"{name}.max")
    powers = stage(
        data.shape, lambda axes: unary("exp", data[axes] - top[kept(axes, dims)]), f"{name}.exp"
    )
    total = reduction.sum(powers, axis, True, f"{name}.sum")
    return stage(data.shape, lambda axes: powers[axes] / total[kept(axes, dims)], name)


def log_softmax(data: Tensor, axis: int = -1, name: str = "log_softmax") -> Tensor:
    """``x - max - log(sum(exp(x - max)))`` along ``axis``."""
    dims = {axis % data.ndim}
    top = reduction.max(data, axis, True, f"{name}.max")
    powers = stage(
        data.shape, lambda axes: unary("exp", data[axes] - top[kept(axes, dims)]), f"{name}.exp"
    )
    total = reduction.sum(powers, axis, True, f"{name}.sum")

    def element(axes: tuple[Axis, ...]) -> Expr:
        shifted = data[axes] - top[kept(axes, dims)]
        return shifted - unary("log", total[kept(axes, dims)])

    return stage(data.shape, element, name)


def hardmax(data: Tensor, axis: int = -1, name: str = "hardmax") -> Tensor:
    """1 at the first maximum along ``axis``, 0 elsewhere; stages ``<name>.argmax`` and ``name``."""
    dimension = axis % data.ndim
    index, _ = reduction.argmax(data, dimension, True, f"{name}.argmax")

    def element(axes: tuple[Axis, ...]) -> Expr:
        hit = equal(axes[dimension], index[kept(axes, {dimension})])
        return expr.cast(select(hit, 1.0, 0.0), data.dtype)

    return stage(data.shape, element, name)
