"""Reductions over whole dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import Op, Pattern, TensorType, expect_inputs, normalize_axis
from sketch.operators import reduction
from sketch.tensor import Tensor

ReduceFunction = Literal["sum", "mean", "max", "min"]


@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """``function`` over ``axes`` (non-negative, ascending); ``keepdims`` leaves extents of 1."""

    pattern: ClassVar[Pattern] = Pattern.REDUCTION

    function: ReduceFunction
    axes: tuple[int, ...]
    keepdims: bool = False

    @property
    def kind(self) -> str:
        return f"reduce_{self.function}"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        rank = len(inputs[0].shape)
        normal = sorted({normalize_axis(axis, rank) for axis in self.axes})
        if tuple(normal) != self.axes or not normal:
            raise GraphError(f"axes {self.axes} must be non-negative, ascending and not empty")
        if self.function == "mean" and inputs[0].dtype != "float32":
            raise GraphError(f"needs float32, got {inputs[0]}")
        shape = tuple(
            1 if dimension in self.axes else extent
            for dimension, extent in enumerate(inputs[0].shape)
            if self.keepdims or dimension not in self.axes
        )
        return TensorType(shape, inputs[0].dtype)


def lower_reduce(op: Reduce, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage; two for a mean."""
    functions = {
        "sum": reduction.sum,
        "mean": reduction.mean,
        "max": reduction.max,
        "min": reduction.min,
    }
    return (functions[op.function](inputs[0], op.axes, op.keepdims, name),)
