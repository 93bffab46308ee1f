"""Element-wise operators of several tensors, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sketch.errors import ExpressionError
from sketch.lang import expr
from sketch.lang.expr import Axis, Const, Expr
from sketch.lang.tensor import Tensor
from sketch.operators.layout import stage


def broadcast_shape(shapes: Sequence[tuple[int, ...]], where: str = "") -> tuple[int, ...]:
    """The common shape; raises ExpressionError where extents differ and none of them is 1."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result: list[int] = []
    for extents in zip(*padded, strict=True):
        wide = {extent for extent in extents if extent != 1}
        if len(wide) > 1:
            raise ExpressionError(f"cannot broadcast shapes {', '.join(map(str, shapes))}", where)
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def broadcast_element(data: Tensor, axes: Sequence[Axis]) -> Expr:
    """The element of ``data`` at a point of a shape it broadcasts to."""
    own = axes[len(axes) - data.ndim :]
    zero = Const(0, "int64")
    return data[
        tuple(zero if n == 1 and a.extent > 1 else a for a, n in zip(own, data.shape, strict=True))
    ]


def zip_elements(tensors: Sequence[Tensor], function: Callable[..., Any], name: str) -> Tensor:
    """``function`` of corresponding elements of all tensors."""
    shape = broadcast_shape([t.shape for t in tensors], f"stage {name}")
    return stage(shape, lambda axes: function(*(broadcast_element(t, axes) for t in tensors)), name)


def binary(op: str, lhs: Tensor, rhs: Tensor, name: str | None = None) -> Tensor:
    """An operator of two tensors, broadcast as in NumPy.

    Args:
        op: add, sub, mul, div, min, max, pow, lt, and, ...
        lhs: left operand.
        rhs: right operand.
        name: of the stage; None: ``op``.
    """
    return zip_elements((lhs, rhs), lambda a, b: expr.binary(op, a, b), name or op)


def add(lhs: Tensor, rhs: Tensor, name: str = "add") -> Tensor:
    """``lhs + rhs``."""
    return binary("add", lhs, rhs, name)


def subtract(lhs: Tensor, rhs: Tensor, name: str = "subtract") -> Tensor:
    """``lhs - rhs``."""
    return binary("sub", lhs, rhs, name)


def multiply(lhs: Tensor, rhs: Tensor, name: str = "multiply") -> Tensor:
    """``lhs * rhs``."""
    return binary("mul", lhs, rhs, name)


def divide(lhs: Tensor, rhs: Tensor, name: str = "divide") -> Tensor:
    """``lhs / rhs``, floats only."""
    return binary("div", lhs, rhs, name)


def where(condition: Tensor, then: Tensor, otherwise: Tensor, name: str = "where") -> Tensor:
    """``then`` where ``condition`` (bool) holds, else ``otherwise``.

    Args:
        condition: bool.
        then: value where it holds.
        otherwise: value elsewhere; all three are broadcast to one shape.
        name: of the stage.
    """
    return zip_elements((condition, then, otherwise), expr.select, name)


def broadcast_to(data: Tensor, shape: Sequence[int], name: str = "broadcast_to") -> Tensor:
    """``data`` repeated to ``shape``.

    Raises:
        ExpressionError: an extent differs and is not 1.
    """
    target = tuple(shape)
    if broadcast_shape([data.shape, target], f"stage {name}") != target:
        raise ExpressionError(f"{data.shape} does not broadcast to {target}", f"stage {name}")
    return stage(target, lambda axes: broadcast_element(data, axes), name)
