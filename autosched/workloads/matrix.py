"""Matrix products, norms and softmax of Ansor's benchmarks (Zheng et al., OSDI 2020, section 7)."""

from __future__ import annotations

from autosched.workloads.definition import workload
from sketch.lang.reducers import sum as total
from sketch.lang.tensor import Tensor, placeholder, reduce_axis
from sketch.operators import reduction
from sketch.operators.elementwise import call
from sketch.operators.layout import stage, transpose
from sketch.operators.matmul import batch_matmul
from sketch.operators.softmax import softmax


@workload(
    name="GMM",
    shapes=((1, 128, 128, 128), (1, 512, 32, 512), (1, 512, 512, 512), (1, 1024, 1024, 1024)),
)
def gmm(batch: int, n: int, m: int, k: int, constant: bool = False) -> Tensor:
    """Batched matrix product: [batch, n, k] with [batch, k, m].

    Args:
        batch: number of matrices.
        n: rows of the result.
        m: columns of the result.
        k: extent of the sum.
        constant: whether the second operand is weights.
    """
    lhs = placeholder((batch, n, k), name="A")
    rhs = placeholder((batch, k, m), name="B", constant=constant)
    return batch_matmul(lhs, rhs, name="gmm")


@workload(
    name="NRM",
    shapes=((1, 256, 256), (1, 512, 512), (1, 1024, 1024), (1, 4096, 1024)),
)
def nrm(batch: int, n: int, m: int) -> Tensor:
    """Frobenius norm of every matrix: [batch, n, m] -> [batch]."""
    data = placeholder((batch, n, m), name="data")
    squares = stage(data.shape, lambda axes: data[axes] * data[axes], "squares")
    return call(reduction.sum(squares, (1, 2), name="sum"), "sqrt", "nrm")


@workload(name="SFM", shapes=((1, 256, 256), (1, 512, 512), (1, 1024, 1024), (1, 2048, 2048)))
def sfm(batch: int, n: int, m: int) -> Tensor:
    """Softmax of every row: [batch, n, m]."""
    return softmax(placeholder((batch, n, m), name="data"), name="sfm")


@workload(
    name="TBMM",
    shapes=((1, 128, 12, 64), (1, 128, 16, 64), (1, 64, 12, 128), (1, 128, 12, 128)),
)
def tbmm(batch: int, length: int, heads: int, width: int) -> Tensor:
    """Scores of attention: query and value [batch, length, heads, width], transposed, multiplied
    to [batch, heads, length, length].

    Args:
        batch: number of sequences.
        length: tokens.
        heads: of the attention.
        width: of a head.
    """
    shape = (batch, length, heads, width)
    query = transpose(placeholder(shape, name="query"), (0, 2, 1, 3), "query.heads")
    value = transpose(placeholder(shape, name="value"), (0, 2, 3, 1), "value.heads")
    k = reduce_axis(width, "k")
    return stage(
        (batch, heads, length, length),
        lambda axes: total(
            query[axes[0], axes[1], axes[2], k] * value[axes[0], axes[1], k, axes[3]], axis=k
        ),
        "tbmm",
    )
