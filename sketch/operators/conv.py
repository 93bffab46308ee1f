"""Direct convolutions: data NHWC, weights HWIO."""

from __future__ import annotations

from dataclasses import dataclass

from sketch import reducers
from sketch.errors import ExpressionError
from sketch.expr import Axis, Const, Expr, select
from sketch.operators.layout import reshape
from sketch.operators.window import Pair, Window, as_padding, as_pair, inside
from sketch.tensor import Tensor, compute, reduce_axis


@dataclass(frozen=True, slots=True)
class _Taps:
    """The reduction of a convolution: kernel row, kernel column, input channel of the group.

    An axis of extent 1 is the constant 0 and no loop, unless nothing else is left to reduce.
    """

    row: Expr
    column: Expr
    channel: Expr

    @staticmethod
    def of(kernel: tuple[int, int], channels: int) -> _Taps:
        def tap(extent: int, label: str) -> Expr:
            return reduce_axis(extent, label) if extent > 1 else Const(0, "int64")

        taps = _Taps(tap(kernel[0], "rh"), tap(kernel[1], "rw"), tap(channels, "rc"))
        return taps if taps.axes else _Taps(taps.row, taps.column, reduce_axis(1, "rc"))

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(p for p in (self.row, self.column, self.channel) if isinstance(p, Axis))


@dataclass(frozen=True, slots=True)
class _Geometry:
    height: Window
    width: Window
    groups: int
    group_inputs: int
    group_outputs: int


def _geometry(
    data: Tensor, weight: Tensor, stride: Pair, padding: Pair, dilation: Pair, groups: int,
    where: str,
) -> _Geometry:  # fmt: skip
    if data.ndim != 4 or weight.ndim != 4:
        raise ExpressionError(
            f"needs data NHWC and weight HWIO, got shapes {data.shape} and {weight.shape}", where
        )
    _, height, width, channels = data.shape
    kh, kw, group_inputs, outputs = weight.shape
    if groups < 1 or channels != group_inputs * groups or outputs % groups:
        raise ExpressionError(
            f"{channels} input and {outputs} output channels do not fit a weight of "
            f"{group_inputs} inputs in {groups} groups",
            where,
            "weight has shape [kh, kw, input channels / groups, output channels]",
        )
    (sh, sw), (dh, dw) = as_pair(stride, "stride"), as_pair(dilation, "dilation")
    top, left, bottom, right = as_padding(padding)
    return _Geometry(
        Window(height, kh, sh, dh, top, bottom),
        Window(width, kw, sw, dw, left, right),
        groups,
        group_inputs,
        outputs // groups,
    )


def conv2d(
    data: Tensor,
    weight: Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    name: str = "conv2d",
) -> Tensor:
    """2-D convolution, ``[N, H, W, C]`` with ``[kh, kw, C / groups, O]`` -> ``[N, OH, OW, O]``.

    Padding is a predicate: a padded tap is not multiplied.  ``padding`` is p, (h, w) or (top,
    left, bottom, right).  With 1 < groups < channels the result is a reshape of
    ``grouped_conv2d``.
    """
    where = f"stage {name}"
    geometry = _geometry(data, weight, stride, padding, dilation, groups, where)
    depthwise = geometry.group_inputs == 1 and geometry.group_outputs == 1
    if groups > 1 and not depthwise:
        split = grouped_conv2d(data, weight, stride, padding, dilation, groups, f"{name}.groups")
        n, oh, ow, g, per_group = split.shape
        return reshape(split, (n, oh, ow, g * per_group), name)
    taps = _Taps.of((geometry.height.kernel, geometry.width.kernel), geometry.group_inputs)
    oh, ow = geometry.height.positions(where), geometry.width.positions(where)

    def element(n: Axis, h: Axis, w: Axis, c: Axis) -> Expr:
        channel = c if depthwise and groups > 1 else taps.channel
        factor = weight[taps.row, taps.column, taps.channel, c]
        return _sum_of_taps(data, geometry, taps, (n, h, w, channel), factor)

    result: Tensor = compute((data.shape[0], oh, ow, weight.shape[3]), element, name=name)
    return result


def grouped_conv2d(
    data: Tensor,
    weight: Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    name: str = "conv2d",
) -> Tensor:
    """``conv2d`` with the groups as an axis of their own: ``-> [N, OH, OW, groups, O / groups]``.

    Memory order is that of ``[N, OH, OW, O]``; no index needs a division.
    """
    where = f"stage {name}"
    geometry = _geometry(data, weight, stride, padding, dilation, groups, where)
    taps = _Taps.of((geometry.height.kernel, geometry.width.kernel), geometry.group_inputs)
    oh, ow = geometry.height.positions(where), geometry.width.positions(where)

    def element(n: Axis, h: Axis, w: Axis, g: Axis, c: Axis) -> Expr:
        channel = g * geometry.group_inputs + taps.channel
        output = g * geometry.group_outputs + c
        factor = weight[taps.row, taps.column, taps.channel, output]
        return _sum_of_taps(data, geometry, taps, (n, h, w, channel), factor)

    shape = (data.shape[0], oh, ow, groups, geometry.group_outputs)
    result: Tensor = compute(shape, element, name=name)
    return result


def _sum_of_taps(
    data: Tensor,
    geometry: _Geometry,
    taps: _Taps,
    point: tuple[Expr, Expr, Expr, Expr],
    factor: Expr,
) -> Expr:
    n, h, w, channel = point
    row, column = geometry.height.index(h, taps.row), geometry.width.index(w, taps.column)
    product = data[n, row, column, channel] * factor
    condition = inside((row, geometry.height.extent), (column, geometry.width.extent))
    term = product if condition is None else select(condition, product, 0)
    return reducers.sum(term, axis=taps.axes)
