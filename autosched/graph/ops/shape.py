"""Operators that only move data: reshape, transpose, concat, pad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import (
    Op,
    Pattern,
    Shape,
    TensorType,
    expect_inputs,
    normalize_axis,
)
from sketch.lang.tensor import Tensor
from sketch.operators import layout


@dataclass(frozen=True, slots=True)
class Reshape(Op):
    """The same elements in row-major order under another shape (flatten, squeeze, unsqueeze).

    Buffers are contiguous, so this is a view: it never becomes a kernel.
    """

    pattern: ClassVar[Pattern] = Pattern.OPAQUE

    shape: Shape

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        result = TensorType(self.shape, inputs[0].dtype)
        if result.size != inputs[0].size:
            raise GraphError(f"cannot reshape {inputs[0]} to {self.shape}")
        return result


@dataclass(frozen=True, slots=True)
class Transpose(Op):
    """Dimension ``d`` of the output is dimension ``permutation[d]`` of the input."""

    pattern: ClassVar[Pattern] = Pattern.INJECTIVE

    permutation: tuple[int, ...]

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        if sorted(self.permutation) != list(range(len(inputs[0].shape))):
            raise GraphError(f"{self.permutation} does not permute the dimensions of {inputs[0]}")
        shape = tuple(inputs[0].shape[axis] for axis in self.permutation)
        return TensorType(shape, inputs[0].dtype)


@dataclass(frozen=True, slots=True)
class Concat(Op):
    """Concatenation of one or more inputs along ``axis`` (non-negative).

    In a network it needs no kernel: the inputs are computed in place.
    """

    pattern: ClassVar[Pattern] = Pattern.OPAQUE

    axis: int

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        if not inputs:
            raise GraphError("takes at least 1 input, got 0")
        first = inputs[0]
        axis = normalize_axis(self.axis, len(first.shape))
        for value in inputs[1:]:
            others = (*value.shape[:axis], first.shape[axis], *value.shape[axis + 1 :])
            if others != first.shape or value.dtype != first.dtype:
                raise GraphError(f"cannot concatenate {first} and {value} along axis {axis}")
        total = sum(value.shape[axis] for value in inputs)
        return TensorType((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


@dataclass(frozen=True, slots=True)
class Copy(Op):
    """The input once more, elsewhere in memory; a kernel of its own."""

    pattern: ClassVar[Pattern] = Pattern.OPAQUE

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        return inputs[0]


@dataclass(frozen=True, slots=True)
class Pad(Op):
    """Constant padding: ``low[d]`` elements before and ``high[d]`` after dimension ``d``."""

    pattern: ClassVar[Pattern] = Pattern.INJECTIVE

    low: tuple[int, ...]
    high: tuple[int, ...]
    value: float = 0.0

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        rank = len(inputs[0].shape)
        if (
            len(self.low) != rank
            or len(self.high) != rank
            or min((*self.low, *self.high), default=0) < 0
        ):
            raise GraphError(f"padding {self.low}, {self.high} does not fit {inputs[0]}")
        shape = tuple(
            low + extent + high
            for low, extent, high in zip(self.low, inputs[0].shape, self.high, strict=True)
        )
        return TensorType(shape, inputs[0].dtype)


def lower_reshape(op: Reshape, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """Only the reference evaluates it; in a module it is a view."""
    return (layout.reshape(inputs[0], op.shape, name),)


def lower_transpose(op: Transpose, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (layout.transpose(inputs[0], op.permutation, name),)


def lower_concat(op: Concat, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage per input, all writing the buffer ``name``."""
    return layout.concat(inputs, op.axis, name)


def lower_pad(op: Pad, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (layout.pad(inputs[0], op.low, op.high, op.value, name),)
