"""Reductions over whole dimensions, positions of extremes, running sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import (
    Op,
    Pattern,
    Shape,
    TensorType,
    expect_inputs,
    normalize_axis,
)
from sketch.lang.dtypes import BOOL, is_float
from sketch.lang.tensor import Tensor
from sketch.operators import elementwise, reduction, scan
from sketch.operators.scan import ScanFunction

ReduceFunction = Literal[
    "sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum", "log_sum_exp"
]
_FLOAT_ONLY: Final = ("mean", "l2", "log_sum", "log_sum_exp")
_OF_BOOL: Final = ("max", "min")
_FUNCTIONS: Final[Mapping[ReduceFunction, Callable[..., Tensor]]] = {
    "sum": reduction.sum,
    "mean": reduction.mean,
    "max": reduction.max,
    "min": reduction.min,
    "prod": reduction.prod,
    "l1": reduction.l1,
    "l2": reduction.l2,
    "sum_square": reduction.sum_square,
    "log_sum": reduction.log_sum,
    "log_sum_exp": reduction.log_sum_exp,
}


@dataclass(frozen=True, slots=True)
class ReduceOp(Op):
    """``function`` over ``axes`` (non-negative, ascending); ``keepdims`` leaves extents of 1."""

    pattern: ClassVar[Pattern] = Pattern.REDUCTION

    function: ReduceFunction
    axes: tuple[int, ...]
    keepdims: bool = False

    @property
    def kind(self) -> str:
        return f"reduce_{self.function}"

    @property
    def reads_once(self) -> bool:
        return self.function != "log_sum_exp"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        rank, dtype = len(inputs[0].shape), inputs[0].dtype
        normal = sorted({normalize_axis(axis, rank) for axis in self.axes})
        if tuple(normal) != self.axes or not normal:
            raise GraphError(f"axes {self.axes} must be non-negative, ascending and not empty")
        if self.function in _FLOAT_ONLY and not is_float(dtype):
            raise GraphError(f"needs a float, got {inputs[0]}")
        if dtype == BOOL and self.function not in _OF_BOOL:
            raise GraphError(f"needs numbers, got {inputs[0]}")
        return TensorType(reduced_shape(inputs[0].shape, self.axes, self.keepdims), dtype)


@dataclass(frozen=True, slots=True)
class ArgReduce(Op):
    """Position (int64) of the first extreme along ``axis`` (non-negative), or of the ``last``."""

    pattern: ClassVar[Pattern] = Pattern.REDUCTION

    function: Literal["max", "min"]
    axis: int
    keepdims: bool = False
    last: bool = False

    @property
    def kind(self) -> str:
        return f"arg{self.function}"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        axis = normalize_axis(self.axis, len(inputs[0].shape))
        if inputs[0].dtype == BOOL:
            raise GraphError(f"needs numbers, got {inputs[0]}")
        return TensorType(reduced_shape(inputs[0].shape, (axis,), self.keepdims), "int64")


@dataclass(frozen=True, slots=True)
class Cumulative(Op):
    """Running sum or product along ``axis``: of elements 0..i, without i if ``exclusive``.

    ``reverse`` runs from the end.
    """

    pattern: ClassVar[Pattern] = Pattern.COMPLEX

    function: ScanFunction
    axis: int
    exclusive: bool = False
    reverse: bool = False

    @property
    def kind(self) -> str:
        return f"cumulative_{self.function}"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        normalize_axis(self.axis, len(inputs[0].shape))
        if inputs[0].dtype == BOOL:
            raise GraphError(f"needs numbers, got {inputs[0]}")
        return inputs[0]


def reduced_shape(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    """What is left of ``shape``; ``keepdims`` leaves extents of 1."""
    return tuple(
        1 if dimension in axes else extent
        for dimension, extent in enumerate(shape)
        if keepdims or dimension not in axes
    )


def lower_reduce(op: ReduceOp, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage or, for functions of a sum, several; truth values are reduced as numbers."""
    function = _FUNCTIONS[op.function]
    if inputs[0].dtype != BOOL:
        return (function(inputs[0], op.axes, op.keepdims, name),)
    numbers = elementwise.cast(inputs[0], "int32", f"{name}.number")
    total = function(numbers, op.axes, op.keepdims, f"{name}.extreme")
    return (elementwise.cast(total, BOOL, name),)


def lower_arg_reduce(op: ArgReduce, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage that reduces pairs; the extreme itself is dropped."""
    function = reduction.argmax if op.function == "max" else reduction.argmin
    return (function(inputs[0], op.axis, op.keepdims, name, op.last)[0],)


def lower_cumulative(op: Cumulative, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (scan.cumulative(inputs[0], op.function, op.axis, op.exclusive, op.reverse, name),)
