"""Reductions over dimensions of one tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from sketch.errors import ExpressionError
from sketch.lang import expr, reducers
from sketch.lang.dtypes import STORAGE_FLOATS, is_float
from sketch.lang.expr import Axis, Expr, Reduce
from sketch.lang.functions import equal
from sketch.lang.tensor import Tensor, compute, reduce_axis
from sketch.operators.elementwise import map_elements
from sketch.operators.layout import stage

Axes = int | Sequence[int] | None


def _reduced(data: Tensor, axis: Axes, where: str) -> tuple[int, ...]:
    """Dimensions to reduce, ascending; None means all."""
    wanted = range(data.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    dims = sorted(d + data.ndim if d < 0 else d for d in wanted)
    if not dims or len(set(dims)) < len(dims) or dims[0] < 0 or dims[-1] >= data.ndim:
        raise ExpressionError(f"cannot reduce axes {axis!r} of shape {data.shape}", where)
    return tuple(dims)


class _Plan:
    """Which dimensions stay, which are reduced, and how points map to elements."""

    def __init__(self, data: Tensor, axis: Axes, keepdims: bool, where: str) -> None:
        self._data = data
        self._keepdims = keepdims
        self._dims = _reduced(data, axis, where)
        self.axes = {d: reduce_axis(data.shape[d], f"r{d}") for d in self._dims}
        stay = [1 if d in self.axes else extent for d, extent in enumerate(data.shape)]
        self.shape = stay if keepdims else [n for d, n in enumerate(stay) if d not in self.axes]

    def element(self, axes: tuple[Axis, ...]) -> Expr:
        own = iter(axes)
        indices: list[Axis] = []
        for d in range(self._data.ndim):
            if d in self.axes:
                if self._keepdims:
                    next(own)
                indices.append(self.axes[d])
            else:
                indices.append(next(own))
        return self._data[tuple(indices)]


def narrowed(name: str, dtype: str, make: Callable[[str], Tensor]) -> Tensor:
    """The stage that ``make(name)`` adds, rounded to ``dtype``.

    16-bit floats are reduced in float32; the rounding is a stage after it.
    """
    if dtype not in STORAGE_FLOATS:
        return make(name)
    return map_elements(make(f"{name}.wide"), lambda x: expr.cast(x, dtype), name)


def widened(data: Tensor, name: str) -> Tensor:
    """``data`` for operators of several stages: 16-bit floats as float32, stage ``<name>.input``.

    What lies between the stages is not rounded then, and does not overflow.
    """
    if data.dtype not in STORAGE_FLOATS:
        return data
    return map_elements(data, lambda x: expr.cast(x, "float32"), f"{name}.input")


def _reduce(
    data: Tensor, axis: Axes, keepdims: bool, name: str,
    reducer: Callable[[Any, Sequence[Axis]], Reduce],
    term: Callable[[Expr], Expr] = lambda x: x,
) -> Tensor:  # fmt: skip
    plan = _Plan(data, axis, keepdims, f"stage {name}")
    over = tuple(plan.axes.values())

    def make(label: str) -> Tensor:
        return stage(plan.shape, lambda axes: reducer(term(plan.element(axes)), over), label)

    return narrowed(name, data.dtype, make)


def sum(data: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "sum") -> Tensor:
    """Sum over ``axis``.

    Args:
        data: numbers.
        axis: one dimension, several, or None for all.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.
    """
    return _reduce(data, axis, keepdims, name, reducers.sum)


def prod(data: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "prod") -> Tensor:
    """Product over ``axis``.

    Args:
        data: numbers.
        axis: one dimension, several, or None for all.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.
    """
    return _reduce(data, axis, keepdims, name, reducers.prod)


def max(data: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "max") -> Tensor:
    """Maximum over ``axis``; NaN if an element is NaN.

    Args:
        data: numbers.
        axis: one dimension, several, or None for all.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.
    """
    return _reduce(data, axis, keepdims, name, reducers.max)


def min(data: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "min") -> Tensor:
    """Minimum over ``axis``; NaN if an element is NaN.

    Args:
        data: numbers.
        axis: one dimension, several, or None for all.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.
    """
    return _reduce(data, axis, keepdims, name, reducers.min)


def sum_square(
    data: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "sum_square"
) -> Tensor:
    """Sum of squares over ``axis``.

    Args:
        data: numbers.
        axis: one dimension, several, or None for all.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.
    """
    return _reduce(data, axis, keepdims, name, reducers.sum, lambda x: x * x)


def l1(data: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "l1") -> Tensor:
    """Sum of absolute values over ``axis``.

    Args:
        data: numbers.
        axis: one dimension, several, or None for all.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.
    """
    return _reduce(data, axis, keepdims, name, reducers.sum, lambda x: expr.unary("abs", x))


def l2(data: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "l2") -> Tensor:
    """Root of the sum of squares over ``axis``: stage ``<name>.sum``, then the root.

    Args:
        data: numbers.
        axis: one dimension, several, or None for all.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.
    """
    total = sum_square(widened(data, name), axis, keepdims, f"{name}.sum")
    return map_elements(total, lambda x: expr.cast(expr.unary("sqrt", x), data.dtype), name)


def log_sum(
    data: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "log_sum"
) -> Tensor:
    """Logarithm of the sum over ``axis``: stage ``<name>.sum``, then the logarithm.

    Args:
        data: numbers.
        axis: one dimension, several, or None for all.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.
    """
    total = sum(widened(data, name), axis, keepdims, f"{name}.sum")
    return map_elements(total, lambda x: expr.cast(expr.unary("log", x), data.dtype), name)


def log_sum_exp(
    data: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "log_sum_exp"
) -> Tensor:
    """Logarithm of the sum of exponentials over ``axis``, in the form that does not overflow.

    Stages ``<name>.max``, ``<name>.sum`` (of exponentials relative to the maximum), ``name``.

    Args:
        data: numbers.
        axis: one dimension, several, or None for all.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.
    """
    wide = widened(data, name)
    top = max(wide, axis, keepdims, f"{name}.max")
    plan = _Plan(wide, axis, keepdims, f"stage {name}")
    over = tuple(plan.axes.values())

    def power(axes: tuple[Axis, ...]) -> Expr:
        return expr.unary("exp", plan.element(axes) - _finite(top[axes]))

    def element(axes: tuple[Axis, ...]) -> Expr:
        return expr.cast(expr.unary("log", total[axes]) + _finite(top[axes]), data.dtype)

    total = stage(plan.shape, lambda axes: reducers.sum(power(axes), over), f"{name}.sum")
    return stage(plan.shape, element, name)


def _finite(value: Expr) -> Expr:
    """``value``, or 0 where it is infinite: infinity minus itself would be NaN."""
    return expr.select(equal(expr.unary("abs", value), math.inf), 0.0, value)


def mean(data: Tensor, axis: Axes = None, keepdims: bool = False, name: str = "mean") -> Tensor:
    """Mean over ``axis``: stage ``<name>.sum``, then a scaling.

    Args:
        data: numbers.
        axis: one dimension, several, or None for all.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.

    Raises:
        ExpressionError: the data holds no floats.
    """
    if not is_float(data.dtype):
        raise ExpressionError(f"the mean of {data.dtype} is not defined", name, "cast it first")
    count = math.prod(data.shape[d] for d in _reduced(data, axis, f"stage {name}"))
    total = sum(widened(data, name), axis, keepdims, f"{name}.sum")
    return map_elements(total, lambda x: expr.cast(x * (1.0 / count), data.dtype), name)


def argmax(
    data: Tensor, axis: int = -1, keepdims: bool = False, name: str = "argmax", last: bool = False
) -> tuple[Tensor, Tensor]:
    """(int64 index, maximum) along one dimension; of several maxima the first, or the ``last``.

    Args:
        data: numbers.
        axis: one dimension; negative ones count from the end.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.
        last: which of several maxima is the result: the last one.
    """
    return _argument(data, axis, keepdims, name, last, reducers.argmax)


def argmin(
    data: Tensor, axis: int = -1, keepdims: bool = False, name: str = "argmin", last: bool = False
) -> tuple[Tensor, Tensor]:
    """(int64 index, minimum) along one dimension; of several minima the first, or the ``last``.

    Args:
        data: numbers.
        axis: one dimension; negative ones count from the end.
        keepdims: keep reduced dimensions, with extent 1.
        name: of the last stage.
        last: which of several minima is the result: the last one.
    """
    return _argument(data, axis, keepdims, name, last, reducers.argmin)


def _argument(
    data: Tensor, axis: int, keepdims: bool, name: str, last: bool, reducer: Callable[..., Reduce]
) -> tuple[Tensor, Tensor]:
    plan = _Plan(data, axis, keepdims, f"stage {name}")
    (over,) = plan.axes.values()
    position = expr.as_expr(over)
    index, value = compute(
        plan.shape,
        lambda *axes: reducer(position, plan.element(axes), over, last),
        name=name,
    )
    return index, value
