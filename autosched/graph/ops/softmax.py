"""Softmax and its relatives along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.graph.ops.base import (
    Op,
    Pattern,
    TensorType,
    expect_float,
    expect_inputs,
    normalize_axis,
)
from sketch.lang.tensor import Tensor
from sketch.operators import softmax


@dataclass(frozen=True, slots=True)
class Softmax(Op):
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``; its logarithm if ``log``."""

    pattern: ClassVar[Pattern] = Pattern.REDUCTION

    axis: int = -1
    log: bool = False

    @property
    def kind(self) -> str:
        return "log_softmax" if self.log else "softmax"

    @property
    def reads_once(self) -> bool:
        return False

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        expect_float(inputs[0])
        normalize_axis(self.axis, len(inputs[0].shape))
        return inputs[0]


@dataclass(frozen=True, slots=True)
class Hardmax(Op):
    """1 at the first maximum along ``axis``, 0 elsewhere."""

    pattern: ClassVar[Pattern] = Pattern.REDUCTION

    axis: int = -1

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        expect_float(inputs[0])
        normalize_axis(self.axis, len(inputs[0].shape))
        return inputs[0]


def lower_softmax(op: Softmax, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """Four stages: maximum, exponentials, sum, quotient (or difference of logarithms)."""
    function = softmax.log_softmax if op.log else softmax.softmax
    return (function(inputs[0], op.axis, name),)


def lower_hardmax(op: Hardmax, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """Two stages: position of the maximum, comparison."""
    return (softmax.hardmax(inputs[0], op.axis, name),)
