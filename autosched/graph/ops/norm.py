"""Normalisation: batch-norm at inference, softmax."""

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
    expect_inputs,
    expect_shape,
    normalize_axis,
)
from sketch.expr import Expr, unary
from sketch.operators import softmax
from sketch.operators.layout import stage
from sketch.tensor import Tensor


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
class Softmax(Op):
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``."""

    pattern: ClassVar[Pattern] = Pattern.REDUCTION

    axis: int = -1

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        normalize_axis(self.axis, len(inputs[0].shape))
        return inputs[0]


def lower_batch_norm(op: BatchNorm, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage; only batch-norms whose statistics are computed get this far."""
    data, gamma, beta, mean, variance = inputs
    channel = op.channel_axis(data.ndim)

    def element(axes: tuple[Expr, ...]) -> Expr:
        c = axes[channel]
        scale = gamma[c] * unary("rsqrt", variance[c] + op.epsilon)
        return (data[axes] - mean[c]) * scale + beta[c]

    return (stage(data.shape, element, name),)


def lower_softmax(op: Softmax, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """Four stages: maximum, exponentials, sum, quotient."""
    return (softmax.softmax(inputs[0], op.axis, name),)
