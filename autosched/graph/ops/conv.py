"""Two-dimensional convolution."""

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
    join_nchw,
    split_nchw,
)
from sketch.operators import broadcast, conv, layout
from sketch.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Conv2d(Op):
    """Grouped, dilated convolution of ``data`` with ``weight``, plus ``bias`` if given.

    ``layout`` NCHW: data ``[n, c, h, w]``, weight ``[oc, ic/groups, kh, kw]`` (OIHW);
    NHWC: data ``[n, h, w, c]``, weight ``[kh, kw, ic/groups, oc]`` (HWIO).  bias: ``[oc]``.
    ``padding`` is (top, left, bottom, right) in elements.
    """

    pattern: ClassVar[Pattern] = Pattern.COMPLEX
    roles: ClassVar[tuple[str, ...]] = ("data", "weight", "bias")

    strides: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    layout: Layout = "NCHW"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 2, 3)
        data, weight = inputs[:2]
        expect_rank(self, data, 4)
        expect_rank(self, weight, 4, "weight")
        batch, channels, height, width = split_nchw(data.shape, self.layout)
        out_channels, in_channels, kernel = self.split_weight(weight.shape)
        if in_channels * self.groups != channels or out_channels % self.groups:
            raise GraphError(
                f"weight {weight} in {self.groups} groups does not fit data {data} in {self.layout}"
            )
        if len(inputs) == 3:
            expect_shape(inputs[2], (out_channels,), "bias")
        top, left, bottom, right = self.padding
        rows = window_count(height, kernel[0], self.strides[0], self.dilation[0], (top, bottom))
        columns = window_count(width, kernel[1], self.strides[1], self.dilation[1], (left, right))
        return TensorType(join_nchw(batch, out_channels, rows, columns, self.layout), data.dtype)

    def split_weight(self, shape: Shape) -> tuple[int, int, Pair]:
        """Output channels, input channels per group, kernel (height, width) of a weight shape."""
        if self.layout == "NCHW":
            return shape[0], shape[1], (shape[2], shape[3])
        return shape[3], shape[2], (shape[0], shape[1])


def window_count(
    extent: int, kernel: int, stride: int, dilation: int, pads: Pair, ceil_mode: bool = False
) -> int:
    """Number of windows along one dimension.  Raises GraphError when none fits.

    With ``ceil_mode`` a last partial window counts if it starts inside the data or its low padding.
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


def lower_conv2d(op: Conv2d, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """NHWC directly; NCHW between transposes, for graphs that have not been through the passes."""
    data, weight = inputs[:2]
    label = name
    if op.layout == "NCHW":
        data = layout.transpose(data, (0, 2, 3, 1), f"{name}.nhwc")
        weight = layout.transpose(weight, (2, 3, 1, 0), f"{name}.hwio")
        label = f"{name}.channels_last"
    result = conv.conv2d(data, weight, op.strides, op.padding, op.dilation, op.groups, name=label)
    if len(inputs) == 3:
        result = broadcast.add(result, inputs[2], f"{label}.bias_add")
    if op.layout == "NCHW":
        result = layout.transpose(result, (0, 3, 1, 2), name)
    return (result,)
