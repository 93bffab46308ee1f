"""Products with constant matrices of narrow integers."""

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
)
from sketch.lang.tensor import Tensor
from sketch.operators.narrow import NarrowFormat, narrow_matmul


@dataclass(frozen=True, slots=True)
class NarrowMatMul(Op):
    """``data [..., k] @ (scale * (integers - zero)) [k, n]``, integers in words of 32 bits.

    Attributes:
        stored: how the words hold the integers; the first dimension of ``scale [blocks, n]`` and
            of ``zero``, if given, counts its blocks.
    """

    stored: NarrowFormat

    pattern: ClassVar[Pattern] = Pattern.COMPLEX
    roles: ClassVar[tuple[str, ...]] = ("data", "words", "scale", "zero")

    @property
    def kind(self) -> str:
        return "narrow_matmul"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 3, 4)
        data, words, *parameters = inputs
        expect_float(data)
        expect_rank(self, words, 2, "words")
        if not data.shape or data.shape[-1] != words.shape[0] * self.stored.in_word:
            raise GraphError(f"words {words} of {self.stored} are no rows for data {data}")
        for role, parameter in zip(("scale", "zero"), parameters, strict=False):
            blocks = -(-data.shape[-1] // self.stored.block)
            expect_shape(parameter, (blocks, words.shape[1]), role)
        return TensorType((*data.shape[:-1], words.shape[1]), data.dtype)


def lower_narrow_matmul(
    op: NarrowMatMul, inputs: Sequence[Tensor], name: str
) -> tuple[Tensor, ...]:
    """One stage."""
    data, words, scale, *zero = inputs
    return (narrow_matmul(data, words, scale, zero[0] if zero else None, op.stored, name),)
