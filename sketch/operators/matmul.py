"""Matrix products."""

from __future__ import annotations

from sketch.errors import ExpressionError
from sketch.lang import reducers
from sketch.lang.dtypes import AnyDtype
from sketch.lang.tensor import Tensor, compute, reduce_axis
from sketch.operators.factors import factor


def _check_inner(lhs: Tensor, rhs: Tensor, rank: int, where: str) -> None:
    if lhs.ndim != rank or rhs.ndim != rank:
        raise ExpressionError(f"{where} needs {rank}-D operands, got {lhs.shape} and {rhs.shape}")
    if lhs.shape[-1] != rhs.shape[-2] or lhs.shape[:-2] != rhs.shape[:-2]:
        raise ExpressionError(
            f"shapes {lhs.shape} and {rhs.shape} do not match", where, "check for a transpose"
        )


def matmul(lhs: Tensor, rhs: Tensor, name: str = "matmul", dtype: AnyDtype | None = None) -> Tensor:
    """``[M, K] x [K, N] -> [M, N]``.

    Args:
        lhs: of rows.
        rhs: of columns.
        name: of the stage.
        dtype: of products and sums, or tf32; None: what the operands are promoted to.

    Raises:
        ExpressionError: the shapes do not match.
    """
    _check_inner(lhs, rhs, 2, f"stage {name}")
    k = reduce_axis(lhs.shape[1], "k")

    result: Tensor = compute(
        (lhs.shape[0], rhs.shape[1]),
        lambda i, j: reducers.sum(factor(lhs[i, k], dtype) * factor(rhs[k, j], dtype), axis=k),
        name=name,
    )
    return result


def dense(data: Tensor, weight: Tensor, name: str = "dense") -> Tensor:
    """A fully connected layer: data ``[M, K]``, weight ``[K, N]`` -> ``[M, N]``."""
    return matmul(data, weight, name)


def batch_matmul(lhs: Tensor, rhs: Tensor, name: str = "batch_matmul") -> Tensor:
    """``[B, M, K] x [B, K, N] -> [B, M, N]``."""
    _check_inner(lhs, rhs, 3, f"stage {name}")
    k = reduce_axis(lhs.shape[2], "k")
    result: Tensor = compute(
        (lhs.shape[0], lhs.shape[1], rhs.shape[2]),
        lambda b, i, j: reducers.sum(lhs[b, i, k] * rhs[b, k, j], axis=k),
        name=name,
    )
    return result
