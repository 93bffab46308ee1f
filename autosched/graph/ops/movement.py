"""Operators that pick or repeat elements at places known in advance: slice, expand, triangle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import (
    Op,
    Pattern,
    Shape,
    TensorType,
    broadcast_shape,
    expect_float,
    expect_inputs,
    normalize_axis,
)
from sketch.lang.tensor import Tensor
from sketch.operators import broadcast, layout
from sketch.operators.layout import Run


@dataclass(frozen=True, slots=True)
class Slice(Op):
    """``data[start:stop:step]`` in every dimension, never empty.

    Bounds are resolved: ``0 <= start < stop <= extent`` where the step is positive, and
    ``-1 <= stop < start < extent`` where it is negative.
    """

    pattern: ClassVar[Pattern] = Pattern.INJECTIVE

    start: tuple[int, ...]
    stop: tuple[int, ...]
    step: tuple[int, ...]

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        source = inputs[0].shape
        if not len(self.start) == len(self.stop) == len(self.step) == len(source):
            raise GraphError(f"{len(self.start)} bounds for {inputs[0]}")
        for first, stop, step, extent in zip(self.start, self.stop, self.step, source, strict=True):
            rising = step > 0 and 0 <= first < stop <= extent
            falling = step < 0 and -1 <= stop < first < extent
            if not rising and not falling:
                raise GraphError(f"bounds {first}:{stop}:{step} do not fit {inputs[0]}")
        bounds = zip(self.start, self.stop, self.step, strict=True)
        return TensorType(tuple(layout.slice_extent(*each) for each in bounds), inputs[0].dtype)


@dataclass(frozen=True, slots=True)
class Expand(Op):
    """The input repeated to ``shape``, as NumPy broadcasts it."""

    pattern: ClassVar[Pattern] = Pattern.INJECTIVE

    shape: Shape

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        if broadcast_shape((inputs[0].shape, self.shape)) != self.shape:
            raise GraphError(f"{inputs[0]} does not broadcast to {self.shape}")
        return TensorType(self.shape, inputs[0].dtype)


@dataclass(frozen=True, slots=True)
class Pick(Op):
    """Slices along ``axis`` (non-negative) at known indices, in a few regular runs: every element
    twice, or a border that mirrors what is next to it.
    """

    pattern: ClassVar[Pattern] = Pattern.INJECTIVE

    axis: int
    runs: tuple[Run, ...]

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        axis = normalize_axis(self.axis, len(inputs[0].shape))
        shape = inputs[0].shape
        picked = (*shape[:axis], self.runs[-1].stop, *shape[axis + 1 :])
        return TensorType(picked, inputs[0].dtype)


@dataclass(frozen=True, slots=True)
class Triangle(Op):
    """The upper or lower triangle of each matrix, zero elsewhere, or minus infinity if ``hidden``.

    Element (i, j) is kept where ``j - i >= diagonal``, or ``<=`` for the lower one.
    """

    pattern: ClassVar[Pattern] = Pattern.BROADCAST

    upper: bool
    diagonal: int = 0
    hidden: bool = False

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        if len(inputs[0].shape) < 2:
            raise GraphError(f"needs matrices, got {inputs[0]}")
        if self.hidden:
            expect_float(inputs[0])
        return inputs[0]


def lower_slice(op: Slice, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (layout.strided_slice(inputs[0], op.start, op.stop, op.step, name),)


def lower_expand(op: Expand, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (broadcast.broadcast_to(inputs[0], op.shape, name),)


def lower_pick(op: Pick, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (layout.pick(inputs[0], op.axis, op.runs, name),)


def lower_triangle(op: Triangle, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    outside = -inf if op.hidden else None
    return (layout.triangle(inputs[0], op.upper, op.diagonal, name, outside),)
