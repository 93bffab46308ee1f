"""Pooling, over windows and over whole maps, in any number of spatial dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import Layout, Op, Pattern, Shape, TensorType, expect_inputs
from autosched.graph.ops.conv import window_count
from sketch.lang.tensor import Tensor
from sketch.operators import layout, pooling
from sketch.operators.window import Window

PoolMode = Literal["max", "avg", "sum"]


def channels_last(rank: int) -> tuple[int, ...]:
    """The permutation that moves dimension 1, the channels, behind the spatial dimensions."""
    return (0, *range(2, rank), 1)


def channels_first(rank: int) -> tuple[int, ...]:
    """The permutation that undoes ``channels_last``."""
    return (0, rank - 1, *range(1, rank - 1))


def spatial_of(shape: Shape, order: Layout) -> Shape:
    """The spatial extents of data in ``order``."""
    return shape[2:] if order == "NCHW" else shape[1:-1]


def with_spatial(shape: Shape, spatial: Shape, order: Layout) -> Shape:
    """``shape`` with other spatial extents."""
    if order == "NCHW":
        return (*shape[:2], *spatial)
    return (shape[0], *spatial, shape[-1])


def _expect_maps(data: TensorType) -> None:
    if len(data.shape) < 3:
        raise GraphError(f"data must have at least 3 dimensions, got {data}")


@dataclass(frozen=True, slots=True)
class Pool(Op):
    """Pooling over windows; all attributes have an entry for each spatial dimension.

    ``padding`` has all low sides, then all high sides: (top, left, bottom, right).
    ``count_include_pad``: an average divides by the whole window, not only by its valid elements
    (elements beyond the padding, which ceil_mode may reach, never count).  ``layout`` NCHW: data
    ``[n, c, *spatial]``; NHWC: ``[n, *spatial, c]``.
    """

    pattern: ClassVar[Pattern] = Pattern.COMPLEX

    mode: PoolMode
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    ceil_mode: bool = False
    count_include_pad: bool = False
    layout: Layout = "NCHW"

    @property
    def kind(self) -> str:
        return f"{self.mode}_pool{len(self.window)}d"

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """Padding (low, high) of each spatial dimension; none if it was not given."""
        rank = len(self.window)
        padding = self.padding or (0,) * (2 * rank)
        return tuple(zip(padding[:rank], padding[rank:], strict=True))

    @property
    def dilations(self) -> tuple[int, ...]:
        """Distance of the taps in each spatial dimension; 1 if it was not given."""
        return self.dilation or (1,) * len(self.window)

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        _expect_maps(inputs[0])
        spatial = spatial_of(inputs[0].shape, self.layout)
        if {len(spatial)} != {len(self.window), len(self.strides), len(self.dilations)}:
            raise GraphError(f"window {self.window} does not fit the data {inputs[0]}")
        counts = []
        for d, (low, high) in enumerate(self.sides):
            if max(low, high) > self.dilations[d] * (self.window[d] - 1):
                raise GraphError(f"padding {self.padding} is not smaller than the window")
            counts.append(
                window_count(
                    spatial[d], self.window[d], self.strides[d], self.dilations[d], (low, high),
                    self.ceil_mode,
                )
            )  # fmt: skip
        shape = with_spatial(inputs[0].shape, tuple(counts), self.layout)
        return TensorType(shape, inputs[0].dtype)


@dataclass(frozen=True, slots=True)
class GlobalPool(Op):
    """Pooling over all spatial dimensions, which become 1."""

    pattern: ClassVar[Pattern] = Pattern.REDUCTION

    mode: Literal["max", "avg"]
    layout: Layout = "NCHW"

    @property
    def kind(self) -> str:
        return f"global_{self.mode}_pool"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        _expect_maps(inputs[0])
        shape = inputs[0].shape
        ones = (1,) * (len(shape) - 2)
        return TensorType(with_spatial(shape, ones, self.layout), inputs[0].dtype)


def lower_pool(op: Pool, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """Channels last directly; else between transposes, for graphs that no pass has seen."""
    spatial = spatial_of(inputs[0].shape, op.layout)
    parts = zip(spatial, op.window, op.strides, op.dilations, op.sides, strict=True)
    windows = [Window(n, kernel, stride, step, *sides) for n, kernel, stride, step, sides in parts]

    def pool(data: Tensor, label: str) -> Tensor:
        return pooling.pool(data, op.mode, windows, op.ceil_mode, op.count_include_pad, label)

    return (_in_channels_last(op.layout, inputs[0], name, pool),)


def lower_global_pool(op: GlobalPool, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """As ``lower_pool``."""
    pool = pooling.global_avg_pool if op.mode == "avg" else pooling.global_max_pool
    return (_in_channels_last(op.layout, inputs[0], name, pool),)


def _in_channels_last(
    order: Layout, data: Tensor, name: str, pool: Callable[[Tensor, str], Tensor]
) -> Tensor:
    if order == "NHWC":
        return pool(data, name)
    moved = layout.transpose(data, channels_last(data.ndim), f"{name}.nhwc")
    inner = pool(moved, f"{name}.channels_last")
    return layout.transpose(inner, channels_first(data.ndim), name)
