"""Pooling over the height and width of NHWC tensors."""

from __future__ import annotations

from typing import Literal

from sketch import reducers
from sketch.dtypes import is_float
from sketch.errors import ExpressionError
from sketch.expr import Axis, Const, Expr, cast, maximum, minimum, select
from sketch.operators.elementwise import map_elements
from sketch.operators.layout import stage
from sketch.operators.window import Pair, Window, as_padding, as_pair, inside
from sketch.tensor import Tensor, reduce_axis


def pool2d(
    data: Tensor,
    kind: Literal["max", "avg"],
    kernel: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    name: str = "pool2d",
) -> Tensor:
    """Windows of NHWC ``data`` -> ``[N, OH, OW, C]``.

    Args:
        data: ``[N, H, W, C]``.
        kind: maximum, or average (stages ``<name>.sum`` and ``name``).
        kernel: height and width of a window.
        stride: distance of windows; None means ``kernel``.
        padding: p, (h, w) or (top, left, bottom, right); never read.
        dilation: distance of the taps of a window.
        ceil_mode: add a window that hangs over the end, if it starts inside.
        count_include_pad: averages divide by all taps but those beyond the padding.
        name: name of the stage.
    """
    where = f"stage {name}"
    if data.ndim != 4 or kind not in ("max", "avg"):
        raise ExpressionError(f"cannot pool shape {data.shape} with kind {kind!r}", where)
    windows = _windows(data, kernel, kernel if stride is None else stride, padding, dilation)
    shape = (
        data.shape[0],
        windows[0].positions(where, ceil_mode),
        windows[1].positions(where, ceil_mode),
        data.shape[3],
    )
    if kind == "max":
        return _pool_max(data, windows, shape, name)
    return _pool_average(data, windows, shape, count_include_pad, name)


def _windows(
    data: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> tuple[Window, Window]:
    (kh, kw), (sh, sw) = as_pair(kernel, "kernel"), as_pair(stride, "stride")
    dh, dw = as_pair(dilation, "dilation")
    top, left, bottom, right = as_padding(padding)
    return (
        Window(data.shape[1], kh, sh, dh, top, bottom),
        Window(data.shape[2], kw, sw, dw, left, right),
    )


def _taps(
    data: Tensor, windows: tuple[Window, Window], axes: tuple[Axis, ...], over: tuple[Axis, Axis],
    otherwise: float | int,
) -> Expr:  # fmt: skip
    n, h, w, c = axes
    row, column = windows[0].index(h, over[0]), windows[1].index(w, over[1])
    condition = inside((row, windows[0].extent), (column, windows[1].extent))
    read = data[n, row, column, c]
    fill = Const(float(otherwise) if is_float(data.dtype) else int(otherwise), data.dtype)
    return read if condition is None else select(condition, read, fill)


def _over(windows: tuple[Window, Window]) -> tuple[Axis, Axis]:
    return reduce_axis(windows[0].kernel, "rh"), reduce_axis(windows[1].kernel, "rw")


def _pool_max(
    data: Tensor, windows: tuple[Window, Window], shape: tuple[int, ...], name: str
) -> Tensor:
    over = _over(windows)
    lowest = reducers.lowest(data.dtype)
    return stage(
        shape, lambda axes: reducers.max(_taps(data, windows, axes, over, lowest), over), name
    )


def _pool_average(
    data: Tensor, windows: tuple[Window, Window], shape: tuple[int, ...], with_pad: bool, name: str
) -> Tensor:
    if not is_float(data.dtype):
        raise ExpressionError(f"the average of {data.dtype} is not defined", f"stage {name}")
    over = _over(windows)
    total = stage(
        shape, lambda axes: reducers.sum(_taps(data, windows, axes, over, 0), over), f"{name}.sum"
    )

    def element(axes: tuple[Axis, ...]) -> Expr:
        rows = _count(windows[0], axes[1], with_pad)
        columns = _count(windows[1], axes[2], with_pad)
        if isinstance(rows, int) and isinstance(columns, int):
            return total[axes] * (1.0 / (rows * columns))
        return total[axes] / cast(columns * rows, data.dtype)

    return stage(shape, element, name)


def _count(window: Window, position: Axis, with_pad: bool) -> Expr | int:
    """Taps of a window that count: a number where it is the same for all positions.

    first = position*stride - before; taps t with low <= first + t*dilation < high count.
    """
    low = -window.before if with_pad else 0
    high = window.extent + (window.after if with_pad else 0)
    first, last = -window.before, (position.extent - 1) * window.stride - window.before
    offset, step = position * window.stride, window.dilation
    begin: Expr | int = 0
    if first < low:
        begin = maximum((low + window.before + step - 1 - offset) // step, 0)
    end: Expr | int = window.kernel
    if last + window.reach > high:
        end = minimum((high + window.before + step - 1 - offset) // step, window.kernel)
    return end - begin


def global_avg_pool(data: Tensor, name: str = "global_avg_pool") -> Tensor:
    """``[N, H, W, C] -> [N, 1, 1, C]``: the mean over height and width, stages .sum and scaling."""
    height, width = _spatial_extents(data, name)
    h, w = reduce_axis(height, "rh"), reduce_axis(width, "rw")
    total = stage(
        (data.shape[0], 1, 1, data.shape[3]),
        lambda axes: reducers.sum(data[axes[0], h, w, axes[3]], axis=(h, w)),
        f"{name}.sum",
    )
    return map_elements(total, lambda x: x * (1.0 / (height * width)), name)


def global_max_pool(data: Tensor, name: str = "global_max_pool") -> Tensor:
    """``[N, H, W, C] -> [N, 1, 1, C]``: the maximum over height and width."""
    height, width = _spatial_extents(data, name)
    h, w = reduce_axis(height, "rh"), reduce_axis(width, "rw")
    return stage(
        (data.shape[0], 1, 1, data.shape[3]),
        lambda axes: reducers.max(data[axes[0], h, w, axes[3]], axis=(h, w)),
        name,
    )


def _spatial_extents(data: Tensor, name: str) -> tuple[int, int]:
    if data.ndim != 4:
        raise ExpressionError(f"needs data NHWC, got shape {data.shape}", f"stage {name}")
    return data.shape[1], data.shape[2]
