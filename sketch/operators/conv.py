"""Direct convolutions over any number of spatial dimensions: channels last, padding a predicate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sketch.errors import ExpressionError
from sketch.lang import reducers
from sketch.lang.expr import Axis, Const, Expr, select
from sketch.lang.tensor import Tensor, compute, reduce_axis
from sketch.operators.channels import (
    Channels,
    dense_channels,
    depthwise_channels,
    grouped_channels,
)
from sketch.operators.layout import reshape
from sketch.operators.window import Pair, Window, as_sides, as_tuple, inside

_SPATIAL: Final = ("d", "h", "w")


def spatial_names(rank: int) -> tuple[str, ...]:
    """Names of ``rank`` spatial axes: w; h, w; d, h, w; numbered beyond three."""
    return _SPATIAL[-rank:] if rank <= len(_SPATIAL) else tuple(f"x{d}" for d in range(rank))


@dataclass(frozen=True, slots=True)
class Taps:
    """The reduction of a convolution: kernel position, then input channel of the group.

    An axis of extent 1 is the constant 0 and no loop, unless nothing else is left to reduce.
    """

    kernel: tuple[Expr, ...]
    channel: Expr

    @staticmethod
    def of(kernel: Sequence[int], channels: int) -> Taps:
        """Axes for a kernel of these extents."""
        names = (*(f"r{name}" for name in spatial_names(len(kernel))), "rc")
        parts = [
            reduce_axis(extent, name) if extent > 1 else Const(0, "int64")
            for extent, name in zip((*kernel, channels), names, strict=True)
        ]
        if not any(isinstance(part, Axis) for part in parts):
            parts[-1] = reduce_axis(1, "rc")
        return Taps(tuple(parts[:-1]), parts[-1])

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(part for part in (*self.kernel, self.channel) if isinstance(part, Axis))

    def sum(self, product: Expr, positions: Sequence[tuple[Expr, int]]) -> Expr:
        """The sum of ``product`` over the taps whose (index, extent) are all in range."""
        condition = inside(*positions)
        term = product if condition is None else select(condition, product, 0)
        return reducers.sum(term, axis=self.axes)


def conv(
    data: Tensor,
    weight: Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    name: str = "conv",
) -> Tensor:
    """``[N, *spatial, C]`` with ``[*kernel, C / groups, O]`` -> ``[N, *positions, O]``.

    Padding is a predicate: a padded tap is not multiplied.  With groups that are not single
    channels the result is a reshape of ``grouped_conv``.

    Args:
        data: ``[N, *spatial, C]``, a float dtype.
        weight: in the layout above.
        stride: of the windows, in elements; one number, or one for each spatial dimension.
        padding: zeros around the data, in elements: p, one for each dimension, or all low sides and
            then all high sides.
        dilation: distance of taps, in elements; as ``stride``.
        groups: number of groups; divides C and O.
        name: of the stage.

    Raises:
        ExpressionError: shapes do not fit each other, or the windows the data.
    """
    where = f"stage {name}"
    if groups == 1:
        channels = dense_channels(data, weight, where)
    elif groups == data.shape[-1] == weight.shape[-1]:
        channels = depthwise_channels(data, weight, where)
    else:
        split = grouped_conv(data, weight, stride, padding, dilation, groups, name=f"{name}.groups")
        return reshape(split, (*split.shape[:-2], split.shape[-2] * split.shape[-1]), name)
    return _convolve(data, weight, channels, stride, padding, dilation, name)


def conv2d(
    data: Tensor,
    weight: Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    name: str = "conv2d",
) -> Tensor:
    """``conv`` over two dimensions: ``[N, H, W, C]`` with ``[kh, kw, C / groups, O]``.

    Args:
        data: ``[N, *spatial, C]``, a float dtype.
        weight: in the layout above.
        stride: of the windows, in elements; one number, or one for each spatial dimension.
        padding: zeros around the data, in elements: p, one for each dimension, or all low sides and
            then all high sides.
        dilation: distance of taps, in elements; as ``stride``.
        groups: number of groups; divides C and O.
        name: of the stage.

    Raises:
        ExpressionError: data or weight has not four dimensions.
    """
    if data.ndim != 4 or weight.ndim != 4:
        raise ExpressionError(
            f"needs data NHWC and weight HWIO, got shapes {data.shape} and {weight.shape}",
            f"stage {name}",
        )
    return conv(data, weight, stride, padding, dilation, groups, name)


def grouped_conv(
    data: Tensor,
    weight: Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    name: str = "conv",
) -> Tensor:
    """``conv`` with the groups as an axis of their own: ``-> [N, *positions, groups, O / groups]``.

    Weight ``[groups, *kernel, C / groups, O / groups]``, each group's part in one piece, or as in
    ``conv``.  Memory order is that of ``[N, *positions, O]``; no index needs a division.

    Args:
        data: ``[N, *spatial, C]``, a float dtype.
        weight: in the layout above.
        stride: of the windows, in elements; one number, or one for each spatial dimension.
        padding: zeros around the data, in elements: p, one for each dimension, or all low sides and
            then all high sides.
        dilation: distance of taps, in elements; as ``stride``.
        groups: number of groups; divides C and O.
        name: of the stage.
    """
    channels = grouped_channels(data, weight, groups, f"stage {name}")
    return _convolve(data, weight, channels, stride, padding, dilation, name)


def depthwise_conv(
    data: Tensor,
    weight: Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    name: str = "depthwise",
) -> Tensor:
    """Each channel by itself, weight ``[*kernel, M, C]`` -> ``[N, *positions, C]``.

    With M > 1 the result is ``[N, *positions, M, C]``: output m of every channel side by side, so
    that vectors run over channels.

    Args:
        data: ``[N, *spatial, C]``, a float dtype.
        weight: in the layout above.
        stride: of the windows, in elements; one number, or one for each spatial dimension.
        padding: zeros around the data, in elements: p, one for each dimension, or all low sides and
            then all high sides.
        dilation: distance of taps, in elements; as ``stride``.
        name: of the stage.
    """
    channels = depthwise_channels(data, weight, f"stage {name}")
    return _convolve(data, weight, channels, stride, padding, dilation, name)


def _convolve(
    data: Tensor,
    weight: Tensor,
    channels: Channels,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    name: str,
) -> Tensor:
    where = f"stage {name}"
    windows = _windows(data, kernel_of(weight, channels), stride, padding, dilation)
    rank = len(windows)
    taps = Taps.of([window.kernel for window in windows], channels.reduced)

    def element(*axes: Axis) -> Expr:
        positions, mine = axes[1 : 1 + rank], axes[1 + rank :]
        indices = [
            window.index(position, tap)
            for window, position, tap in zip(windows, positions, taps.kernel, strict=True)
        ]
        source = channels.source(mine, taps.channel)
        factor = channels.factor(weight, taps.kernel, mine, taps.channel)
        product = data[(axes[0], *indices, source)] * factor
        extents = [window.extent for window in windows]
        return taps.sum(product, list(zip(indices, extents, strict=True)))

    labels, extents = zip(*channels.axes, strict=True)
    shape = (data.shape[0], *(window.positions(where) for window in windows), *extents)
    result: Tensor = compute(
        shape, element, name=name, axis_names=("n", *spatial_names(rank), *labels)
    )
    return result


def kernel_of(weight: Tensor, channels: Channels) -> tuple[int, ...]:
    """Extents of the kernel of a weight in the form that ``channels`` names."""
    return weight.shape[1:-2] if channels.form == "grouped" else weight.shape[:-2]


def _windows(
    data: Tensor, kernel: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair
) -> tuple[Window, ...]:
    rank = len(kernel)
    low, high = as_sides(padding, rank)
    parts = (
        data.shape[1:-1], kernel, as_tuple(stride, rank, "stride"),
        as_tuple(dilation, rank, "dilation"), low, high,
    )  # fmt: skip
    return tuple(Window(*values) for values in zip(*parts, strict=True))
