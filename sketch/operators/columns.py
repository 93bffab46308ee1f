"""Overlapping blocks of an image, each a column, added where they belong: what undoes windows."""

from __future__ import annotations

from collections.abc import Sequence

from sketch.errors import ExpressionError
from sketch.lang import reducers
from sketch.lang.expr import Axis, Expr, select
from sketch.lang.functions import all_of, equal
from sketch.lang.tensor import Tensor, reduce_axis
from sketch.operators.layout import stage
from sketch.operators.reduction import narrowed
from sketch.operators.window import Window


def fold(data: Tensor, windows: Sequence[Window], name: str = "fold") -> Tensor:
    """``[N, C, *taps, *positions]`` -> ``[N, C, *image]``: the sum of what windows see of a point.

    Args:
        data: one element for each tap of each position of the windows.
        windows: extent of the image, kernel, stride, dilation and padding of each dimension; what
            falls into the padding is left out.
        name: of the stage.

    Raises:
        ExpressionError: windows do not fit the data.
    """
    where = f"stage {name}"
    kernels = tuple(window.kernel for window in windows)
    counts = tuple(window.positions(where) for window in windows)
    if data.shape[2:] != (*kernels, *counts):
        raise ExpressionError(f"cannot fold {data.shape}: {kernels} taps of {counts}", where)
    over = tuple(reduce_axis(_taps(window), f"r{d}") for d, window in enumerate(windows))

    def element(axes: tuple[Axis, ...]) -> Expr:
        taps, positions, conditions = [], [], list[Expr]()
        for point, step, window, count in zip(axes[2:], over, windows, counts, strict=True):
            tap, position, holds = _seen(point + window.before, step, window, count)
            taps.append(tap)
            positions.append(position)
            conditions += holds
        read = data[(*axes[:2], *taps, *positions)]
        value = select(all_of(*conditions), read, 0) if conditions else read
        return reducers.sum(value, over)

    shape = (*data.shape[:2], *(window.extent for window in windows))
    return narrowed(name, data.dtype, lambda label: stage(shape, element, label))


def _taps(window: Window) -> int:
    """Most taps that can lie on one point, or all of them where dilated ones are tried."""
    return -(-window.kernel // window.stride) if window.dilation == 1 else window.kernel


def _seen(point: Expr, step: Expr, window: Window, count: int) -> tuple[Expr, Expr, list[Expr]]:
    """A tap, the position of the window, and the conditions under which it lies on the point.

    Args:
        point: index in the padded image.
        step: number of the tap, among those that can lie on a point.
        window: of this dimension.
        count: positions of the window.
    """
    stride = window.stride
    if window.dilation != 1:
        first = point - step * window.dilation
        position = first // stride
        fits = [equal(first % stride, 0)] if stride > 1 else []
        return step, position, [*fits, position >= 0, position < count]
    tap = step if stride == 1 else point % stride + step * stride
    position = point - step if stride == 1 else point // stride - step
    rest = [tap < window.kernel] if window.kernel % stride else []
    return tap, position, [*rest, position >= 0, position < count]
