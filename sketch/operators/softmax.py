"""Softmax and its relatives, in the form that does not overflow."""

from __future__ import annotations

from sketch.lang import expr
from sketch.lang.expr import Axis, Expr, select, unary
from sketch.lang.functions import equal
from sketch.lang.tensor import Tensor
from sketch.operators import reduction
from sketch.operators.layout import stage
from sketch.operators.normalization import kept


def softmax(data: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``; four stages.

    The three inner stages are ``<name>.max``, ``<name>.exp`` and ``<name>.sum``.  A sum is between
    1 and the number of its terms: its reciprocal, which a row computes once, is as good.
    """
    dims = {axis % data.ndim}
    _, powers, total = _stages(reduction.widened(data, name), axis, name)

    def element(axes: tuple[Axis, ...]) -> Expr:
        return expr.cast(powers[axes] * (1 / total[kept(axes, dims)]), data.dtype)

    return stage(data.shape, element, name)


def log_softmax(data: Tensor, axis: int = -1, name: str = "log_softmax") -> Tensor:
    """``x - max - log(sum(exp(x - max)))`` along ``axis``; stages as those of ``softmax``."""
    dims = {axis % data.ndim}
    wide = reduction.widened(data, name)
    top, _, total = _stages(wide, axis, name)

    def element(axes: tuple[Axis, ...]) -> Expr:
        shifted = wide[axes] - top[kept(axes, dims)]
        return expr.cast(shifted - unary("log", total[kept(axes, dims)]), data.dtype)

    return stage(data.shape, element, name)


def _stages(data: Tensor, axis: int, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Maxima, exponentials relative to them, and the sums of those."""
    dims = {axis % data.ndim}
    top = reduction.max(data, axis, True, f"{name}.max")
    powers = stage(
        data.shape, lambda axes: unary("exp", data[axes] - top[kept(axes, dims)]), f"{name}.exp"
    )
    return top, powers, reduction.sum(powers, axis, True, f"{name}.sum")


def hardmax(data: Tensor, axis: int = -1, name: str = "hardmax") -> Tensor:
    """1 at the first maximum along ``axis``, 0 elsewhere; stages ``<name>.argmax`` and ``name``."""
    dimension = axis % data.ndim
    index, _ = reduction.argmax(data, dimension, True, f"{name}.argmax")

    def element(axes: tuple[Axis, ...]) -> Expr:
        hit = equal(axes[dimension], index[kept(axes, {dimension})])
        return expr.cast(select(hit, 1.0, 0.0), data.dtype)

    return stage(data.shape, element, name)
