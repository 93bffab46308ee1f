"""Pooling over the spatial dimensions of tensors whose channels come last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from sketch.errors import ExpressionError
from sketch.lang import reducers
from sketch.lang.dtypes import is_float
from sketch.lang.expr import Axis, Const, Expr, cast, select
from sketch.lang.functions import maximum, minimum
from sketch.lang.tensor import Tensor, reduce_axis
from sketch.operators import reduction
from sketch.operators.layout import stage
from sketch.operators.reduction import narrowed
from sketch.operators.window import Pair, Window, as_padding, as_pair, inside

PoolKind = Literal["max", "avg", "sum"]


def pool(
    data: Tensor,
    kind: PoolKind,
    windows: Sequence[Window],
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    name: str = "pool",
) -> Tensor:
    """``[N, *spatial, C]`` -> ``[N, *positions, C]``, one of ``windows`` for each dimension.

    Args:
        data: channels last.
        kind: maximum, sum, or average (stages ``<name>.sum`` and ``name``).
        windows: extent, kernel, stride, dilation and padding (never read) of each dimension.
        ceil_mode: add a window that hangs over the end, if it starts inside.
        count_include_pad: averages divide by all taps but those beyond the padding.
        name: name of the stage.

    Raises:
        ExpressionError: windows do not fit the data; an average of integers.
    """
    where = f"stage {name}"
    if data.shape[1:-1] != tuple(window.extent for window in windows):
        raise ExpressionError(f"cannot pool shape {data.shape} with {len(windows)} windows", where)
    positions = [window.positions(where, ceil_mode) for window in windows]
    shape = (data.shape[0], *positions, data.shape[-1])
    if kind != "avg":
        return _reduce_windows(data, windows, shape, kind, name)
    if not is_float(data.dtype):
        raise ExpressionError(f"the average of {data.dtype} is not defined", where)
    return _average(data, windows, shape, count_include_pad, name)


def pool2d(
    data: Tensor,
    kind: PoolKind,
    kernel: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    name: str = "pool2d",
) -> Tensor:
    """``pool`` over two dimensions.

    Args:
        data: ``[N, H, W, C]``.
        kind: "max", "avg" or "sum".
        kernel: extent of the windows, in elements; one number or (height, width).
        stride: of the windows; None: the kernel.
        padding: p, (h, w) or (top, left, bottom, right), in elements.
        dilation: distance of taps, one number or (height, width).
        ceil_mode: count a last window that hangs over the end.
        count_include_pad: divide averages by all taps, padded ones included.
        name: of the stage.

    Raises:
        ExpressionError: the data has not four dimensions, or the kind is unknown.
    """
    where = f"stage {name}"
    if data.ndim != 4 or kind not in ("max", "avg", "sum"):
        raise ExpressionError(f"cannot pool shape {data.shape} with kind {kind!r}", where)
    kernels, dilations = as_pair(kernel, "kernel"), as_pair(dilation, "dilation")
    strides = as_pair(kernel if stride is None else stride, "stride")
    top, left, bottom, right = as_padding(padding)
    windows = (
        Window(data.shape[1], kernels[0], strides[0], dilations[0], top, bottom),
        Window(data.shape[2], kernels[1], strides[1], dilations[1], left, right),
    )
    return pool(data, kind, windows, ceil_mode, count_include_pad, name)


def _reduce_windows(
    data: Tensor,
    windows: Sequence[Window],
    shape: tuple[int, ...],
    kind: Literal["max", "sum"],
    name: str,
) -> Tensor:
    over = tuple(reduce_axis(w.kernel, f"r{label}") for w, label in _labelled(windows))
    reduce = reducers.max if kind == "max" else reducers.sum
    otherwise = reducers.lowest(data.dtype) if kind == "max" else 0
    return narrowed(
        name,
        data.dtype,
        lambda label: stage(
            shape,
            lambda axes: reduce(_tap(data, windows, axes, over, otherwise), over),
            label,
        ),
    )


def _labelled(windows: Sequence[Window]) -> list[tuple[Window, str]]:
    """Each window with the letter of its dimension: (d, h, w), (h, w) or (w)."""
    rank = len(windows)
    letters = "dhw"[-rank:] if rank <= len("dhw") else [str(d) for d in range(rank)]
    return list(zip(windows, letters, strict=True))


def _tap(
    data: Tensor,
    windows: Sequence[Window],
    axes: tuple[Axis, ...],
    over: tuple[Axis, ...],
    otherwise: float | int,
) -> Expr:
    indices = [w.index(a, t) for w, a, t in zip(windows, axes[1:-1], over, strict=True)]
    condition = inside(*((i, w.extent) for i, w in zip(indices, windows, strict=True)))
    read = data[(axes[0], *indices, axes[-1])]
    fill = Const(float(otherwise) if is_float(data.dtype) else int(otherwise), data.dtype)
    return read if condition is None else select(condition, read, fill)


def _average(
    data: Tensor, windows: Sequence[Window], shape: tuple[int, ...], with_pad: bool, name: str
) -> Tensor:
    total = _reduce_windows(reduction.widened(data, name), windows, shape, "sum", f"{name}.sum")

    def element(axes: tuple[Axis, ...]) -> Expr:
        counts = [_count(w, axis, with_pad) for w, axis in zip(windows, axes[1:-1], strict=True)]
        fixed = math.prod(count for count in counts if isinstance(count, int))
        varying = [count for count in counts if not isinstance(count, int)]
        if not varying:
            return cast(total[axes] * (1.0 / fixed), data.dtype)
        taps = varying[0]
        for count in varying[1:]:
            taps = taps * count
        return cast(total[axes] / cast(taps * fixed, total.dtype), data.dtype)

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
    """``[N, *spatial, C] -> [N, 1.., C]``: the mean of each map, stages .sum and scaling."""
    return reduction.mean(data, range(1, data.ndim - 1), True, name)


def global_max_pool(data: Tensor, name: str = "global_max_pool") -> Tensor:
    """``[N, *spatial, C] -> [N, 1.., C]``: the maximum of each map."""
    return reduction.max(data, range(1, data.ndim - 1), True, name)
