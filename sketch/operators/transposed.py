"""Transposed convolutions: one ordinary convolution for every phase of the output."""

from __future__ import annotations

from collections.abc import Sequence

from sketch.analysis.store_places import Coordinate
from sketch.errors import ExpressionError
from sketch.lang.expr import Axis, Const, Expr, as_expr
from sketch.lang.tensor import SharedBuffer, Tensor, compute
from sketch.operators.channels import (
    Channels,
    dense_channels,
    depthwise_channels,
    grouped_channels,
)
from sketch.operators.conv import Taps, kernel_of, spatial_names
from sketch.operators.phases import PhaseRange, TransposedWindow, combinations
from sketch.operators.shared_buffer import stored
from sketch.operators.window import Pair, as_sides, as_tuple


def conv_transpose(
    data: Tensor,
    weight: Tensor,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    output_padding: Pair = 0,
    order: Sequence[int] | None = None,
    name: str = "conv_transpose",
) -> tuple[Tensor, ...]:
    """The transpose of a convolution: ``[N, *spatial, C] -> [N, *outputs, O]``, in one buffer.

    Output extent: ``(extent - 1)*stride + (kernel - 1)*dilation + 1 + output_padding`` less the
    padding of both sides.  Phases of equal form are one stage; list all stages as outputs of the
    program.

    Args:
        data: ``[N, *spatial, C]``.
        weight: ``[*kernel, C, O]``; ``[*kernel, M, C]`` if groups == C > 1, where output c*M + m
            belongs to channel c; else ``[groups, *kernel, C / groups, O / groups]``.
        stride: distance of the outputs that neighbouring inputs add to.
        padding: outputs to leave out: p, one for each dimension, or all low, then all high sides.
        dilation: distance of the outputs of neighbouring kernel positions.
        groups: number of groups of channels.
        output_padding: outputs to add at the high side of each dimension.
        order: dimension d of the buffer is dimension ``order[d]`` of the result.
        name: name of the buffer.

    Raises:
        ExpressionError: shapes do not fit, or nothing is left of the output.
    """
    where = f"stage {name}"
    channels = _channels(data, weight, groups, where)
    windows = _windows(
        data, kernel_of(weight, channels), stride, padding, dilation, output_padding, where
    )
    choices = combinations(windows)
    total = sum(s * (e - 1) for s, (_, e) in zip(channels.strides, channels.axes, strict=True)) + 1
    shape = (data.shape[0], *(window.outputs for window in windows), total)
    buffer = SharedBuffer(name, shape if order is None else tuple(shape[d] for d in order))
    parts = []
    for number, ranges in enumerate(choices):
        label = name if len(choices) == 1 else f"{name}.{number}"
        tensor, coordinates = _part(data, weight, channels, windows, ranges, label)
        parts.append(stored(tensor, buffer, coordinates, order))
    return tuple(parts)


def _channels(data: Tensor, weight: Tensor, groups: int, where: str) -> Channels:
    if groups == 1:
        return dense_channels(data, weight, where)
    if weight.ndim == data.ndim and groups == data.shape[-1]:
        return depthwise_channels(data, weight, where)
    return grouped_channels(data, weight, groups, where)


def _windows(
    data: Tensor,
    kernel: tuple[int, ...],
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    output_padding: Pair,
    where: str,
) -> tuple[TransposedWindow, ...]:
    rank = len(kernel)
    low, high = as_sides(padding, rank)
    extra = (output_padding,) * rank if isinstance(output_padding, int) else tuple(output_padding)
    parts = (
        data.shape[1:-1], kernel, as_tuple(stride, rank, "stride"),
        as_tuple(dilation, rank, "dilation"), low, high, extra,
    )  # fmt: skip
    windows = tuple(TransposedWindow(*values) for values in zip(*parts, strict=True))
    outputs = tuple(window.outputs for window in windows)
    if min(outputs) < 1 or min(extra) < 0:
        raise ExpressionError(
            f"padding {low}, {high} and output padding {extra} leave an output of {outputs}", where
        )
    return windows


def _part(
    data: Tensor,
    weight: Tensor,
    channels: Channels,
    windows: Sequence[TransposedWindow],
    ranges: Sequence[PhaseRange],
    name: str,
) -> tuple[Tensor, list[Coordinate]]:
    """The stage of one combination of ranges, and its place in the output."""
    names, extents = ["n"], [data.shape[0]]
    coordinates: list[Coordinate] = [(0, {0: 1})]
    places: list[tuple[int, int | None]] = []  # of the axes of position and phase
    labels = spatial_names(len(windows))
    for window, chosen, label in zip(windows, ranges, labels, strict=True):
        terms = {len(names): window.stride}
        position, phase = len(names), None
        names.append(label)
        extents.append(chosen.head.count)
        if len(chosen.phases) > 1:
            phase = len(names)
            terms[phase] = 1
            names.append(f"{label}p")
            extents.append(len(chosen.phases))
        places.append((position, phase))
        coordinates.append((chosen.head.first, terms))
    first = len(names)
    coordinates.append((0, {first + k: stride for k, stride in enumerate(channels.strides)}))
    names += [label for label, _ in channels.axes]
    extents += [extent for _, extent in channels.axes]
    taps = Taps.of([chosen.head.taps for chosen in ranges], channels.reduced)

    def element(*axes: Axis) -> Expr:
        if any(chosen.head.taps == 0 for chosen in ranges):
            return as_expr(0, data.dtype)
        zero = Const(0, "int64")
        indices, kernel = [], []
        for chosen, (position, phase), tap in zip(ranges, places, taps.kernel, strict=True):
            which = zero if phase is None else axes[phase]
            indices.append(chosen.index_at(axes[position], which, tap))
            kernel.append(chosen.kernel_at(which, tap))
        mine = axes[first:]
        factor = channels.factor(weight, kernel, mine, taps.channel)
        product = data[(axes[0], *indices, channels.source(mine, taps.channel))] * factor
        return taps.sum(product, list(zip(indices, data.shape[1:-1], strict=True)))

    result: Tensor = compute(extents, element, name=name, axis_names=names)
    return result, coordinates
