"""Convolution over any number of spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import (
    Layout,
    Op,
    Pair,
    Pattern,
    Shape,
    TensorType,
    expect_inputs,
    expect_rank,
    expect_shape,
    is_computed_in,
)
from autosched.graph.ops.conv_weight import ConvWeight, conv_weight
from sketch.lang.tensor import Compute, Tensor, placeholder
from sketch.operators import broadcast, conv, layout
from sketch.operators.factors import factor, sum_dtype
from sketch.operators.shared_buffer import apply_to_parts, merged_channels


@dataclass(frozen=True, slots=True)
class Conv(Op):
    """Grouped, dilated convolution of ``data`` with ``weight``, plus ``bias`` if given.

    One stride and one dilation for each spatial dimension; ``padding`` is all low sides, then all
    high sides, such as (top, left, bottom, right), in elements.

    ``layout`` NCHW: data ``[n, c, *spatial]``, weight ``[oc, ic/groups, *kernel]``; NHWC: data
    ``[n, *spatial, c]``, weight in the forms of ``ConvWeight``.  bias: ``[oc]``.

    ``dtype``: a wider type that products of data and weights are computed and summed in, or tf32,
    which both are rounded to; None: that of the data.
    """

    pattern: ClassVar[Pattern] = Pattern.COMPLEX
    roles: ClassVar[tuple[str, ...]] = ("data", "weight", "bias")
    transposed: ClassVar[bool] = False

    strides: Shape = (1, 1)
    padding: Shape = (0, 0, 0, 0)
    dilation: Shape = (1, 1)
    groups: int = 1
    layout: Layout = "NCHW"
    dtype: str | None = None

    @property
    def kind(self) -> str:
        return f"conv{len(self.strides)}d"

    @property
    def spatial(self) -> int:
        """Number of spatial dimensions."""
        return len(self.strides)

    def weight(self, shape: Shape) -> ConvWeight:
        """What the dimensions of a weight of ``shape`` are.  Raises GraphError if it fits not."""
        return conv_weight(shape, self.spatial, self.groups, self.layout, self.transposed)

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        form, extents = checked_inputs(self, inputs)
        rank = self.spatial
        sides = zip(self.padding[:rank], self.padding[rank:], strict=True)
        parts = zip(extents, form.kernel, self.strides, self.dilation, sides, strict=True)
        outputs = tuple(window_count(*values) for values in parts)
        return output_type(self, inputs[0], form, outputs)


def checked_inputs(op: Conv, inputs: Sequence[TensorType]) -> tuple[ConvWeight, Shape]:
    """Sizes of the weight, and spatial extents of the data.

    Raises:
        GraphError: ranks, channels or attributes do not fit each other.
    """
    expect_inputs(op, inputs, 2, 3)
    data, weight = inputs[:2]
    rank = op.spatial
    if len(op.padding) != 2 * rank or len(op.dilation) != rank:
        raise GraphError(
            f"strides {op.strides}, dilation {op.dilation} and padding {op.padding} are not made "
            f"for the same number of dimensions"
        )
    expect_rank(op, data, rank + 2)
    if op.dtype is not None and not is_computed_in(data, weight, op.dtype):
        raise GraphError(f"{op.kind} of {data} and {weight} is not computed in {op.dtype}")
    if op.layout == "NCHW":
        expect_rank(op, weight, rank + 2, "weight")
    form = op.weight(weight.shape)
    channels = data.shape[1] if op.layout == "NCHW" else data.shape[-1]
    if form.inputs * op.groups != channels:
        raise GraphError(
            f"weight {weight} in {op.groups} groups does not fit data {data} in {op.layout}"
        )
    if len(inputs) == 3:
        expect_shape(inputs[2], (form.outputs * op.groups,), "bias")
    return form, data.shape[2:] if op.layout == "NCHW" else data.shape[1:-1]


def output_type(op: Conv, data: TensorType, form: ConvWeight, spatial: Shape) -> TensorType:
    """Type of the output.

    Args:
        op: the convolution.
        data: type of its data.
        form: sizes of its weight.
        spatial: spatial extents of the output.
    """
    outputs = form.outputs * op.groups
    dtype = data.dtype if op.dtype is None else sum_dtype(op.dtype)
    if op.layout == "NCHW":
        return TensorType((data.shape[0], outputs, *spatial), dtype)
    return TensorType((data.shape[0], *spatial, outputs), dtype)


def window_count(
    extent: int, kernel: int, stride: int, dilation: int, pads: Pair, ceil_mode: bool = False
) -> int:
    """Number of windows along one dimension.

    Args:
        extent: elements of the data.
        kernel: taps of a window.
        stride: of the windows, in elements.
        dilation: distance of taps, in elements.
        pads: elements before and after.
        ceil_mode: count a last partial window that starts inside the data or its low padding.

    Raises:
        GraphError: no window fits.
    """
    span = extent + pads[0] + pads[1] - dilation * (kernel - 1) - 1
    if span < 0 or stride < 1 or dilation < 1 or kernel < 1:
        raise GraphError(
            f"no window of {kernel} (dilation {dilation}, stride {stride}) fits in {extent} "
            f"elements padded by {pads}"
        )
    count = span // stride + 1
    if ceil_mode and span % stride and count * stride < extent + pads[0]:
        count += 1
    return count


def lower_conv(op: Conv, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """Channels last directly; channels first between transposes, for graphs that have not been
    through the passes.  Several channel axes (groups) share the buffer ``name``.
    """
    form = op.weight(inputs[1].shape)
    data, weight = channels_last_operands(op, inputs, form, name)
    windows = (op.strides, op.padding, op.dilation)
    if not form.is_plain:
        if form.is_depthwise:
            split = conv.depthwise_conv(data, weight, *windows, name=f"{name}.split")
            strides: tuple[int, ...] = (1, form.outputs)
        else:
            split = conv.grouped_conv(data, weight, *windows, op.groups, name=f"{name}.split")
            strides = (form.outputs, 1)
        parts = (merged_channels(split, strides, name, buffer_order(op)),)
        return with_bias(op, parts, inputs[2:], name)
    label = f"{name}.channels_last" if op.layout == "NCHW" else name
    result = conv.conv(data, weight, *windows, op.groups, label)
    if len(inputs) == 3:
        result = broadcast.add(result, inputs[2], f"{label}.bias_add")
    if op.layout == "NCHW":
        result = layout.transpose(result, buffer_order(op), name)
    return (result,)


def _widened(value: Tensor, dtype: str, name: str) -> Tensor:
    return layout.stage(value.shape, lambda axes: factor(value[axes], dtype), name)


def buffer_order(op: Conv) -> tuple[int, ...]:
    """Dimensions of the channels-last result in the order of the layout."""
    rank = op.spatial
    return (0, rank + 1, *range(1, rank + 1)) if op.layout == "NCHW" else tuple(range(rank + 2))


def channels_last_operands(
    op: Conv, inputs: Sequence[Tensor], form: ConvWeight, name: str
) -> tuple[Tensor, Tensor]:
    """Data and weight channels last, in the type that they are multiplied in.

    Args:
        op: the convolution.
        inputs: data and weight in the operator's layout.
        form: sizes of the weight.
        name: of stages that change a layout.
    """
    data, weight = inputs[:2]
    if op.layout == "NCHW":
        data = layout.transpose(data, (0, *range(2, data.ndim), 1), f"{name}.nhwc")
        shape = form.split_shape(op.transposed)
        if weight.shape != shape:
            weight = layout.reshape(weight, shape, f"{name}.split_weight")
        weight = layout.transpose(weight, form.permutation(op.transposed), f"{name}.hwio")
    if op.dtype is None:
        return data, weight
    return (
        _widened(data, op.dtype, f"{name}.wide_data"),
        _widened(weight, op.dtype, f"{name}.wide_weight"),
    )


def with_bias(
    op: Conv, parts: tuple[Tensor, ...], bias: Sequence[Tensor], name: str
) -> tuple[Tensor, ...]:
    """``parts`` with the bias added, if there is one.

    Args:
        op: the convolution.
        parts: stages that share one buffer.
        bias: ``[oc]``, or nothing.
        name: of the shared buffer.
    """
    if not bias:
        return parts
    first = parts[0].op
    assert isinstance(first, Compute) and first.store is not None
    shape = first.store.buffer.shape
    channel = 1 if op.layout == "NCHW" else len(shape) - 1
    whole = placeholder(shape, parts[0].dtype, f"{name}.whole")
    total = layout.stage(shape, lambda axes: whole[axes] + bias[0][axes[channel]], name)
    return apply_to_parts(parts, whole, total, name)
