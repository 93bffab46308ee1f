"""Maximum and average pooling, over windows and over whole maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import (
    Layout,
    Op,
    Pair,
    Pattern,
    TensorType,
    expect_inputs,
    expect_rank,
    join_nchw,
    split_nchw,
)
from autosched.graph.ops.conv import window_count
from sketch.operators import layout, pooling
from sketch.tensor import Tensor

PoolMode = Literal["max", "avg"]


@dataclass(frozen=True, slots=True)
class Pool2d(Op):
    """Pooling over windows of ``kernel``; ``padding`` is (top, left, bottom, right).

    ``count_include_pad``: an average divides by the whole window, not only by its valid elements
    (elements beyond the padding, which ceil_mode may reach, never count).
    """

    pattern: ClassVar[Pattern] = Pattern.COMPLEX

    mode: PoolMode
    window: Pair
    strides: Pair
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    ceil_mode: bool = False
    count_include_pad: bool = False
    layout: Layout = "NCHW"

    @property
    def kind(self) -> str:
        return f"{self.mode}_pool2d"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        expect_rank(self, inputs[0], 4)
        batch, channels, height, width = split_nchw(inputs[0].shape, self.layout)
        top, left, bottom, right = self.padding
        low, high = (top, left), (bottom, right)
        for pads in (low, high):
            if any(pad >= reach for pad, reach in zip(pads, self._reach(), strict=True)):
                raise GraphError(f"padding {self.padding} is not smaller than the window")
        rows, columns = (
            window_count(
                extent,
                self.window[d],
                self.strides[d],
                self.dilation[d],
                (low[d], high[d]),
                self.ceil_mode,
            )
            for d, extent in enumerate((height, width))
        )
        return TensorType(join_nchw(batch, channels, rows, columns, self.layout), inputs[0].dtype)

    def _reach(self) -> Pair:
        return (
            self.dilation[0] * (self.window[0] - 1) + 1,
            self.dilation[1] * (self.window[1] - 1) + 1,
        )


@dataclass(frozen=True, slots=True)
class GlobalPool2d(Op):
    """Pooling over all of height and width, which become 1."""

    pattern: ClassVar[Pattern] = Pattern.REDUCTION

    mode: PoolMode
    layout: Layout = "NCHW"

    @property
    def kind(self) -> str:
        return f"global_{self.mode}_pool2d"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        expect_rank(self, inputs[0], 4)
        batch, channels, _, _ = split_nchw(inputs[0].shape, self.layout)
        return TensorType(join_nchw(batch, channels, 1, 1, self.layout), inputs[0].dtype)


def lower_pool2d(op: Pool2d, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """NHWC directly; NCHW between transposes, for graphs that have not been through the passes."""

    def pool(data: Tensor, label: str) -> Tensor:
        return pooling.pool2d(
            data,
            op.mode,
            op.window,
            op.strides,
            op.padding,
            op.dilation,
            op.ceil_mode,
            op.count_include_pad,
            label,
        )

    return (_in_nhwc(op.layout, inputs[0], name, pool),)


def lower_global_pool2d(
    op: GlobalPool2d, inputs: Sequence[Tensor], name: str
) -> tuple[Tensor, ...]:
    """As ``lower_pool2d``."""
    pool = pooling.global_avg_pool if op.mode == "avg" else pooling.global_max_pool
    return (_in_nhwc(op.layout, inputs[0], name, pool),)


def _in_nhwc(
    order: Layout, data: Tensor, name: str, pool: Callable[[Tensor, str], Tensor]
) -> Tensor:
    if order == "NHWC":
        return pool(data, name)
    inner = pool(layout.transpose(data, (0, 2, 3, 1), f"{name}.nhwc"), f"{name}.channels_last")
    return layout.transpose(inner, (0, 3, 1, 2), name)
