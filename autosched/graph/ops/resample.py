"""One dimension read through a table of positions and weights: resizing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import (
    Op,
    Pattern,
    TensorType,
    expect_float,
    expect_inputs,
    expect_rank,
    expect_shape,
    normalize_axis,
)
from sketch.lang.dtypes import is_integer
from sketch.lang.tensor import Tensor
from sketch.operators import resample


@dataclass(frozen=True, slots=True)
class Resample(Op):
    """Element i along ``axis`` is the sum over t of ``weights[i, t] * data[positions[i, t]]``.

    ``positions`` ``[m, taps]``: integers, clamped into the dimension; ``weights``: floats of the
    same shape.
    """

    pattern: ClassVar[Pattern] = Pattern.COMPLEX
    roles: ClassVar[tuple[str, ...]] = ("data", "positions", "weights")

    axis: int

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 3)
        data, positions, weights = inputs
        expect_float(data)
        expect_float(weights, "weights")
        expect_rank(self, positions, 2, "positions")
        expect_shape(weights, positions.shape, "weights")
        if not is_integer(positions.dtype):
            raise GraphError(f"positions must be integers, got {positions}")
        dimension = normalize_axis(self.axis, len(data.shape))
        shape = (*data.shape[:dimension], positions.shape[0], *data.shape[dimension + 1 :])
        return TensorType(shape, data.dtype)


def lower_resample(op: Resample, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (resample.resample(inputs[0], op.axis, inputs[1], inputs[2], name),)
