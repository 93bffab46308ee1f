"""Normalisation by statistics of the data itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sketch.lang import expr, reducers
from sketch.lang.expr import Axis, Expr, unary
from sketch.lang.functions import all_of
from sketch.lang.tensor import Tensor, reduce_axis
from sketch.operators import reduction
from sketch.operators.elementwise import map_elements
from sketch.operators.layout import stage


def normalize(
    data: Tensor,
    axes: Sequence[int],
    epsilon: float,
    centered: bool = True,
    name: str = "normalize",
) -> Tensor:
    """``(x - mean) / sqrt(variance + epsilon)``; 16-bit floats are computed in float32.

    Stages ``<name>.mean.sum``, ``<name>.mean``, ``<name>.variance`` (a sum), ``<name>.scale`` and
    ``name``.

    Args:
        data: floats.
        axes: dimensions of the statistics.
        epsilon: added to the variance.
        centered: subtract the mean; else ``x / sqrt(mean(x * x) + epsilon)``.
        name: of the last stage.
    """
    dims = {axis % data.ndim for axis in axes}
    wide = reduction.widened(data, name)
    deviation = _deviation(wide, sorted(dims), centered, name)
    count = math.prod(data.shape[d] for d in dims)
    total = _sum_of_squares(wide, dims, deviation, f"{name}.variance")
    scale = map_elements(
        total, lambda x: unary("rsqrt", x * (1.0 / count) + epsilon), f"{name}.scale"
    )

    def element(point: tuple[Expr, ...]) -> Expr:
        return expr.cast(deviation(point) * scale[kept(point, dims)], data.dtype)

    return stage(data.shape, element, name)


def normalize_groups(
    data: Tensor, groups: int, epsilon: float, name: str = "normalize_groups"
) -> Tensor:
    """``(x - mean) / sqrt(variance + epsilon)`` over all places, and one group of channels.

    Channels are the last dimension of ``[n, *spatial, c]``.  Sums are of channels first, with one
    channel a lane, then of the channels of a group.  Each channel gets a mean and a scale of its
    own, so that nothing reads across lanes.

    Args:
        data: floats of rank 2 or more.
        groups: number of groups; it divides the channels.
        epsilon: added to the variance.
        name: of the last stage.
    """
    wide = reduction.widened(data, name)
    width = data.shape[-1] // groups
    share = 1.0 / (math.prod(data.shape[1:-1]) * width)
    total = _sums_of_groups(wide.shape, width, lambda point: wide[tuple(point)], f"{name}.sum")
    mean = _of_channels(total, width, lambda x: x * share, f"{name}.mean")

    def deviation(point: Sequence[Expr]) -> Expr:
        return wide[tuple(point)] - mean[point[0], point[-1]]

    def square(point: Sequence[Expr]) -> Expr:
        return deviation(point) * deviation(point)

    squares = _sums_of_groups(wide.shape, width, square, f"{name}.variance")
    scale = _of_channels(
        squares, width, lambda x: unary("rsqrt", x * share + epsilon), f"{name}.scale"
    )

    def element(point: tuple[Expr, ...]) -> Expr:
        return expr.cast(deviation(point) * scale[point[0], point[-1]], data.dtype)

    return stage(data.shape, element, name)


def _sums_of_groups(
    shape: Sequence[int], width: int, value: Callable[[Sequence[Expr]], Expr], name: str
) -> Tensor:
    """``[n, g]``: the sums over all places of ``width`` channels each.

    The first spatial dimension is summed last: its places are rows that threads share.
    """
    samples, *spatial, channels = shape
    over = tuple(reduce_axis(extent, f"r{d}") for d, extent in enumerate(spatial, 1))
    rows = None
    if len(over) > 1:
        rows = stage(
            (samples, spatial[0], channels),
            lambda at: reducers.sum(value((at[0], at[1], *over[1:], at[2])), over[1:]),
            f"{name}.rows",
        )

    def of_row(at: tuple[Axis, ...]) -> Expr:
        point = at[0], over[0], at[1]
        return value(point) if rows is None else rows[point]

    sums = stage(
        (samples, channels),
        lambda at: reducers.sum(of_row(at), over[0]),
        f"{name}.channels",
    )
    if width == 1:
        return sums
    member = reduce_axis(width, "k")
    return stage(
        (samples, channels // width),
        lambda at: reducers.sum(sums[at[0], at[1] * width + member], member),
        name,
    )


def _of_channels(groups: Tensor, width: int, function: Callable[[Expr], Expr], name: str) -> Tensor:
    """``[n, c]``: a function of the number of each channel's group."""
    samples, number = groups.shape
    return stage(
        (samples, number * width), lambda at: function(groups[at[0], at[1] // width]), name
    )


def _deviation(
    data: Tensor, dims: Sequence[int], centered: bool, name: str
) -> Callable[[Sequence[Expr]], Expr]:
    """The element at a point, less the mean where ``centered``."""
    if not centered:
        return lambda point: data[tuple(point)]
    mean = reduction.mean(data, dims, True, f"{name}.mean")
    return lambda point: data[tuple(point)] - mean[kept(point, dims)]


def _sum_of_squares(
    data: Tensor, dims: set[int], value: Callable[[Sequence[Expr]], Expr], name: str
) -> Tensor:
    over = {d: reduce_axis(data.shape[d], f"r{d}") for d in sorted(dims)}

    def element(axes: tuple[Axis, ...]) -> Expr:
        difference = value([over.get(d, axis) for d, axis in enumerate(axes)])
        return reducers.sum(difference * difference, tuple(over.values()))

    shape = [1 if d in dims else extent for d, extent in enumerate(data.shape)]
    return stage(shape, element, name)


def kept(point: Sequence[Expr], dims: Sequence[int] | set[int]) -> tuple[Expr, ...]:
    """The place in a tensor that was reduced over ``dims``, which have the extent 1."""
    zero = expr.as_expr(0)
    return tuple(zero if d in dims else index for d, index in enumerate(point))


def local_response_norm(
    data: Tensor,
    axis: int,
    size: int,
    alpha: float,
    beta: float,
    bias: float,
    name: str = "local_response_norm",
) -> Tensor:
    """``x / (bias + alpha / size * s) ** beta``, s the sum of squares of ``size`` neighbours.

    The neighbours of x along ``axis`` are (size - 1) // 2 before it and size // 2 after it.

    Args:
        data: floats.
        axis: dimension of the neighbours.
        size: number of neighbours, x itself included.
        alpha: weight of the mean of squares.
        beta: exponent.
        bias: added before the power.
        name: of the stage.
    """
    dimension = axis % data.ndim
    over = reduce_axis(size, "k")
    wide = reduction.widened(data, name)
    extent, before = data.shape[dimension], (size - 1) // 2

    def square(axes: tuple[Axis, ...]) -> Expr:
        index = axes[dimension] + over - before
        read = wide[(*axes[:dimension], index, *axes[dimension + 1 :])]
        inside = all_of(index >= 0, index < extent)
        return reducers.sum(expr.select(inside, read * read, 0), over)

    def element(axes: tuple[Axis, ...]) -> Expr:
        base = total[axes] * (alpha / size) + bias
        return expr.cast(wide[axes] / expr.binary("pow", base, beta), data.dtype)

    total = stage(data.shape, square, f"{name}.sum")
    return stage(data.shape, element, name)
