"""Normalisation: by given statistics (batch-norm), by those of the data, by neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import (
    Layout,
    Op,
    Pattern,
    TensorType,
    expect_float,
    expect_inputs,
    expect_shape,
    normalize_axis,
)
from sketch.lang.expr import Expr, unary
from sketch.lang.tensor import Tensor
from sketch.operators import normalization
from sketch.operators.layout import stage


@dataclass(frozen=True, slots=True)
class BatchNorm(Op):
    """``(data - mean) / sqrt(variance + epsilon) * gamma + beta``, per channel.

    Channels are dimension 1 in NCHW (data of any rank from 2 on), the last one in NHWC.
    gamma, beta, mean, variance: ``[c]``.
    """

    pattern: ClassVar[Pattern] = Pattern.BROADCAST
    roles: ClassVar[tuple[str, ...]] = ("data", "gamma", "beta", "mean", "variance")

    epsilon: float = 1e-5
    layout: Layout = "NCHW"

    @property
    def kind(self) -> str:
        return "batch_norm"

    def channel_axis(self, rank: int) -> int:
        """The dimension of ``data`` that holds channels."""
        return 1 if self.layout == "NCHW" else rank - 1

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 5)
        data = inputs[0]
        if len(data.shape) < 2:
            raise GraphError(f"data needs at least 2 dimensions, got {data}")
        channels = data.shape[self.channel_axis(len(data.shape))]
        for value, role in zip(inputs[1:], self.roles[1:], strict=True):
            expect_shape(value, (channels,), role)
        return data


@dataclass(frozen=True, slots=True)
class Normalize(Op):
    """``(x - mean) / sqrt(variance + epsilon)``, statistics over ``axes`` (ascending, from 0 on).

    Not ``centered``: ``x / sqrt(mean(x * x) + epsilon)``.
    """

    pattern: ClassVar[Pattern] = Pattern.REDUCTION

    axes: tuple[int, ...]
    epsilon: float = 1e-5
    centered: bool = True

    @property
    def reads_once(self) -> bool:
        return False

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        expect_float(inputs[0])
        normal = {normalize_axis(axis, len(inputs[0].shape)) for axis in self.axes}
        if tuple(sorted(normal)) != self.axes or not normal:
            raise GraphError(f"axes {self.axes} must be non-negative, ascending and not empty")
        return inputs[0]


@dataclass(frozen=True, slots=True)
class GroupNormalize(Op):
    """``(x - mean) / sqrt(variance + epsilon)`` of ``[n, *spatial, c]``, statistics of each sample
    over all places and the channels of one of ``groups`` groups.
    """

    pattern: ClassVar[Pattern] = Pattern.REDUCTION

    groups: int
    epsilon: float = 1e-5

    @property
    def kind(self) -> str:
        return "group_normalize"

    @property
    def reads_once(self) -> bool:
        return False

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        expect_float(inputs[0])
        shape = inputs[0].shape
        if len(shape) < 3 or self.groups < 1 or shape[-1] % self.groups:
            raise GraphError(
                f"data {inputs[0]} has no {self.groups} groups of channels, at the end"
            )
        return inputs[0]


@dataclass(frozen=True, slots=True)
class LocalResponseNorm(Op):
    """``x / (bias + alpha / size * s) ** beta``, s the sum of squares of ``size`` neighbours
    along ``axis``, (size - 1) // 2 of them before x.
    """

    pattern: ClassVar[Pattern] = Pattern.COMPLEX

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0
    axis: int = 1

    @property
    def kind(self) -> str:
        return "local_response_norm"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        expect_float(inputs[0])
        normalize_axis(self.axis, len(inputs[0].shape))
        if self.size < 1:
            raise GraphError(f"size {self.size} is not positive")
        return inputs[0]


def lower_batch_norm(op: BatchNorm, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage; batch-norms of finite constant parameters do not get this far."""
    data, gamma, beta, mean, variance = inputs
    channel = op.channel_axis(data.ndim)

    def element(axes: tuple[Expr, ...]) -> Expr:
        c = axes[channel]
        scale = gamma[c] * unary("rsqrt", variance[c] + op.epsilon)
        return (data[axes] - mean[c]) * scale + beta[c]

    return (stage(data.shape, element, name),)


def lower_normalize(op: Normalize, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """Stages of statistics, then one that applies them."""
    return (normalization.normalize(inputs[0], op.axes, op.epsilon, op.centered, name),)


def lower_group_normalize(
    op: GroupNormalize, inputs: Sequence[Tensor], name: str
) -> tuple[Tensor, ...]:
    """Stages of statistics, then one that applies them."""
    return (normalization.normalize_groups(inputs[0], op.groups, op.epsilon, name),)


def lower_local_response_norm(
    op: LocalResponseNorm, inputs: Sequence[Tensor], name: str
) -> tuple[Tensor, ...]:
    """Two stages."""
    function = normalization.local_response_norm
    return (function(inputs[0], op.axis, op.size, op.alpha, op.beta, op.bias, name),)
