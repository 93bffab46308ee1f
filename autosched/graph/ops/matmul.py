"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import (
    Op,
    Pattern,
    TensorType,
    broadcast_shape,
    expect_inputs,
    expect_rank,
    expect_shape,
    is_computed_in,
)
from sketch.lang.tensor import Tensor
from sketch.operators import broadcast, einsum, matmul
from sketch.operators.factors import sum_dtype


@dataclass(frozen=True, slots=True)
class Dense(Op):
    """``data [m, k] @ weight [k, n]``, plus ``bias [n]`` if given: a fully connected layer.

    ``dtype``: as of MatMul.
    """

    dtype: str | None = None

    pattern: ClassVar[Pattern] = Pattern.COMPLEX
    roles: ClassVar[tuple[str, ...]] = ("data", "weight", "bias")

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 2, 3)
        data, weight = inputs[:2]
        expect_rank(self, data, 2)
        expect_rank(self, weight, 2, "weight")
        if data.shape[1] != weight.shape[0]:
            raise GraphError(f"inner extents of data {data} and weight {weight} differ")
        if len(inputs) == 3:
            expect_shape(inputs[2], (weight.shape[1],), "bias")
        dtype = _result_dtype(data, weight, self.dtype)
        return TensorType((data.shape[0], weight.shape[1]), dtype)


@dataclass(frozen=True, slots=True)
class MatMul(Op):
    """``lhs [..., m, k] @ rhs [..., k, n]`` with broadcast leading dimensions.

    ``dtype``: a wider type that products are computed and summed in, or tf32, which both operands
    are rounded to; None: that of both operands.
    """

    dtype: str | None = None

    pattern: ClassVar[Pattern] = Pattern.COMPLEX
    roles: ClassVar[tuple[str, ...]] = ("lhs", "rhs")

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 2)
        lhs, rhs = inputs
        if min(len(lhs.shape), len(rhs.shape)) < 2:
            raise GraphError(f"operands need at least 2 dimensions, got {lhs} and {rhs}")
        if lhs.shape[-1] != rhs.shape[-2]:
            raise GraphError(f"inner extents of {lhs} and {rhs} differ")
        dtype = _result_dtype(lhs, rhs, self.dtype)
        batch = broadcast_shape((lhs.shape[:-2], rhs.shape[:-2]))
        return TensorType((*batch, lhs.shape[-2], rhs.shape[-1]), dtype)


def _result_dtype(lhs: TensorType, rhs: TensorType, dtype: str | None) -> str:
    """The type of a product; raises GraphError for operands that are not multiplied."""
    if dtype is None and lhs.dtype != rhs.dtype:
        raise GraphError(f"operands have different dtypes: {lhs} and {rhs}")
    if dtype is not None and not is_computed_in(lhs, rhs, dtype):
        raise GraphError(f"{lhs} and {rhs} are not multiplied in {dtype}")
    return lhs.dtype if dtype is None else sum_dtype(dtype)


def lower_dense(op: Dense, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """A matrix product, then the bias."""
    result = matmul.matmul(inputs[0], inputs[1], name, op.dtype)
    if len(inputs) == 3:
        result = broadcast.add(result, inputs[2], f"{name}.bias_add")
    return (result,)


def lower_matmul(op: MatMul, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One matrix product, or a batch of them, operands broadcast as they are read."""
    lhs, rhs = inputs
    if lhs.ndim == rhs.ndim == 2:
        return (matmul.matmul(lhs, rhs, name, op.dtype),)
    labels, output = matmul_labels(lhs.ndim, rhs.ndim)
    return (einsum.einsum(inputs, labels, output, name, op.dtype),)


def matmul_labels(lhs_rank: int, rhs_rank: int) -> tuple[tuple[str, str], str]:
    """Labels of both operands and of the result, as of an einsum: batch, then i, j, k."""
    batch = ascii_uppercase[: max(lhs_rank, rhs_rank) - 2]
    lhs, rhs = (batch[len(batch) - rank + 2 :] for rank in (lhs_rank, rhs_rank))
    return (f"{lhs}ik", f"{rhs}kj"), f"{batch}ij"
