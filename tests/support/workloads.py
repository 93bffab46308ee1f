"""Programs that many tests share; small, and all different in structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import unary
from sketch.lang.tensor import Placeholder, Tensor, compute, placeholder, reduce_axis
from sketch.operators import broadcast, elementwise, pooling, reduction, softmax
from sketch.operators.conv import conv2d
from sketch.operators.layout import concat, transpose
from sketch.operators.matmul import batch_matmul, dense, matmul


def random_inputs(dag: ComputeDAG, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """An array for each placeholder, as a caller has it: normal floats, small integers, random
    booleans.
    """
    return {t.name: random_array(t, rng) for t in dag.inputs}


def random_array(tensor: Tensor, rng: np.random.Generator) -> np.ndarray:
    shape = tensor.given_shape
    if tensor.dtype == "bool":
        return rng.random(shape) < 0.5
    if tensor.dtype.startswith("int"):
        return rng.integers(-8, 8, shape).astype(tensor.dtype)
    return rng.standard_normal(shape).astype(tensor.dtype)


def prepared(dag: ComputeDAG, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs as kernels read them."""
    found = dict(inputs)
    for tensor in dag.inputs:
        assert isinstance(tensor.op, Placeholder)
        if tensor.op.prepared is not None:
            found[tensor.name] = tensor.op.prepared.apply(inputs[tensor.name])
    return found


def matmul_dag(m: int = 24, n: int = 40, k: int = 36, constant: bool = True) -> ComputeDAG:
    lhs = placeholder((m, k), name="A")
    rhs = placeholder((k, n), name="B", constant=constant)
    return ComputeDAG([matmul(lhs, rhs, name="C")])


def dense_relu(m: int = 8, n: int = 50, k: int = 33) -> ComputeDAG:
    data = placeholder((m, k), name="data")
    weight = placeholder((k, n), name="weight", constant=True)
    bias = placeholder(n, name="bias", constant=True)
    return ComputeDAG([elementwise.relu(broadcast.add(dense(data, weight), bias))])


def conv2d_relu(
    size: int = 9, channels: int = 8, outputs: int = 16, kernel: int = 3, stride: int = 1,
    padding: int = 1,
) -> ComputeDAG:  # fmt: skip
    data = placeholder((1, size, size, channels), name="data")
    weight = placeholder((kernel, kernel, channels, outputs), name="weight", constant=True)
    bias = placeholder(outputs, name="bias", constant=True)
    conv = conv2d(data, weight, stride, padding)
    return ComputeDAG([elementwise.relu(broadcast.add(conv, bias))])


def conv2d_residual(size: int = 7, channels: int = 16) -> ComputeDAG:
    data = placeholder((1, size, size, channels), name="data")
    weight = placeholder((3, 3, channels, channels), name="weight", constant=True)
    bias = placeholder(channels, name="bias", constant=True)
    shortcut = placeholder((1, size, size, channels), name="shortcut")
    biased = broadcast.add(conv2d(data, weight, 1, 1), bias, "bias_add")
    return ComputeDAG([elementwise.relu(broadcast.add(biased, shortcut))])


def conv2d_bare(size: int = 8, channels: int = 4, outputs: int = 16, stride: int = 2) -> ComputeDAG:
    data = placeholder((1, size, size, channels), name="data")
    weight = placeholder((3, 3, channels, outputs), name="weight", constant=True)
    return ComputeDAG([conv2d(data, weight, stride, (0, 0, 1, 1))])


def depthwise(size: int = 10, channels: int = 16, stride: int = 1) -> ComputeDAG:
    data = placeholder((1, size, size, channels), name="data")
    weight = placeholder((3, 3, 1, channels), name="weight", constant=True)
    conv = conv2d(data, weight, stride, 1, groups=channels, name="depthwise")
    return ComputeDAG([elementwise.clip(conv, 0, 6)])


def grouped_conv2d(size: int = 6, channels: int = 8, groups: int = 2) -> ComputeDAG:
    data = placeholder((1, size, size, channels), name="data")
    weight = placeholder((3, 3, channels // groups, 12), name="weight", constant=True)
    return ComputeDAG([conv2d(data, weight, 1, 1, groups=groups)])


def batch_matmul_dag(batch: int = 3, m: int = 12, n: int = 20, k: int = 16) -> ComputeDAG:
    lhs = placeholder((batch, m, k), name="A")
    rhs = placeholder((batch, k, n), name="B")
    return ComputeDAG([batch_matmul(lhs, rhs)])


def attention_dag(heads: int = 2, rows: int = 5, columns: int = 7, width: int = 6) -> ComputeDAG:
    """Values weighted by the softmax of scores."""
    queries = placeholder((heads, rows, width), name="Q")
    keys = placeholder((heads, width, columns), name="K")
    values = placeholder((heads, columns, width), name="V")
    scores = batch_matmul(queries, keys, name="S")
    weights = softmax.softmax(scores, 2, name="P")
    return ComputeDAG([batch_matmul(weights, values, name="O")])


def max_pool(size: int = 9, channels: int = 8) -> ComputeDAG:
    data = placeholder((1, size, size, channels), name="data")
    return ComputeDAG([pooling.pool2d(data, "max", 3, 2, 1)])


def average_pool(size: int = 8, channels: int = 8) -> ComputeDAG:
    data = placeholder((1, size, size, channels), name="data")
    return ComputeDAG([pooling.pool2d(data, "avg", 3, 2, 1)])


def global_average_pool(size: int = 7, channels: int = 24) -> ComputeDAG:
    data = placeholder((1, size, size, channels), name="data")
    return ComputeDAG([pooling.global_avg_pool(data)])


def softmax_dag(rows: int = 6, columns: int = 50) -> ComputeDAG:
    return ComputeDAG([softmax.softmax(placeholder((rows, columns), name="data"))])


def argmax_dag(rows: int = 6, columns: int = 37) -> ComputeDAG:
    return ComputeDAG(list(reduction.argmax(placeholder((rows, columns), name="data"))))


def total_sum(rows: int = 64, columns: int = 33) -> ComputeDAG:
    return ComputeDAG([reduction.sum(placeholder((rows, columns), name="data"))])


def row_sum(rows: int = 5, columns: int = 300) -> ComputeDAG:
    return ComputeDAG([reduction.sum(placeholder((rows, columns), name="data"), 1)])


def chain(rows: int = 12, columns: int = 20) -> ComputeDAG:
    data = placeholder((rows, columns), name="data")
    powers = elementwise.call(data, "tanh")
    return ComputeDAG([broadcast.multiply(powers, elementwise.sigmoid(data))])


def transposed_add(rows: int = 14, columns: int = 18) -> ComputeDAG:
    data = placeholder((rows, columns), name="data")
    other = placeholder((columns, rows), name="other")
    return ComputeDAG([broadcast.add(transpose(data, (1, 0)), other)])


def concat_dag() -> ComputeDAG:
    parts = [placeholder((4, width), name=f"part{width}") for width in (3, 8, 5)]
    return ComputeDAG(list(concat(parts, 1)))


def two_outputs(rows: int = 10, columns: int = 16) -> ComputeDAG:
    data = placeholder((rows, columns), name="data")
    minimum, maximum = compute(
        (rows, columns), lambda i, j: (data[i, j] * 2.0, data[i, j] + 1.0), name="pair"
    )
    return ComputeDAG([minimum, maximum])


def stencil(rows: int = 18, columns: int = 34) -> ComputeDAG:
    """Five-point stencil: no operator of ours computes it."""
    grid = placeholder((rows, columns), name="grid")
    result = compute(
        (rows - 2, columns - 2),
        lambda i, j: (
            grid[i + 1, j + 1] * 0.5
            + (grid[i, j + 1] + grid[i + 2, j + 1] + grid[i + 1, j] + grid[i + 1, j + 2]) * 0.125
        ),
        name="heat",
    )
    return ComputeDAG([result])


def outer_product_sum(
    batch: int = 2, samples: int = 15, rows: int = 12, columns: int = 20
) -> ComputeDAG:
    """Batched sum of outer products, a covariance: no operator of ours computes it."""
    lhs = placeholder((batch, samples, rows), name="lhs")
    rhs = placeholder((batch, samples, columns), name="rhs")
    s = reduce_axis(samples, "s")
    result = compute(
        (batch, rows, columns),
        lambda b, i, j: reducers.sum(lhs[b, s, i] * rhs[b, s, j], axis=s),
        name="covariance",
    )
    return ComputeDAG([result])


def distance_matrix(rows: int = 9, columns: int = 11, width: int = 13) -> ComputeDAG:
    """A reduction that is no product: sum of |a - b|, then a square root."""
    lhs, rhs = placeholder((rows, width), name="lhs"), placeholder((columns, width), name="rhs")
    k = reduce_axis(width, "k")
    total = compute(
        (rows, columns),
        lambda i, j: reducers.sum(unary("abs", lhs[i, k] - rhs[j, k]), axis=k),
        name="distance",
    )
    return ComputeDAG([elementwise.call(total, "sqrt", "root")])


WORKLOADS: Mapping[str, Callable[[], ComputeDAG]] = {
    "matmul": matmul_dag,
    "dense_relu": dense_relu,
    "conv2d_relu": conv2d_relu,
    "conv2d_residual": conv2d_residual,
    "conv2d_bare": conv2d_bare,
    "depthwise": depthwise,
    "grouped_conv2d": grouped_conv2d,
    "batch_matmul": batch_matmul_dag,
    "max_pool": max_pool,
    "average_pool": average_pool,
    "global_average_pool": global_average_pool,
    "softmax": softmax_dag,
    "argmax": argmax_dag,
    "total_sum": total_sum,
    "row_sum": row_sum,
    "chain": chain,
    "transposed_add": transposed_add,
    "concat": concat_dag,
    "two_outputs": two_outputs,
    "stencil": stencil,
    "outer_product_sum": outer_product_sum,
    "distance_matrix": distance_matrix,
}
