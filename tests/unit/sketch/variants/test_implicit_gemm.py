"""Convolutions over one axis of pixels: what they apply to, and that they compute the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang.functions import maximum
from sketch.lang.tensor import Tensor, compute, placeholder
from sketch.operators.conv import conv, conv2d
from sketch.operators.matmul import matmul
from sketch.oracle.interpret import interpret
from sketch.variants.implicit_gemm import implicit_gemm
from tests.support.workloads import random_inputs


def image(batch: int = 1, size: int = 7, channels: int = 3) -> Tensor:
    return placeholder((batch, size, size, channels), name="x")


def filters(size: int = 3, channels: int = 3, outputs: int = 5) -> Tensor:
    return placeholder((size, size, channels, outputs), name="w", constant=True)


def with_tail(result: Tensor) -> ComputeDAG:
    """Bias, a residual, relu; the sum is a result of its own."""
    bias = placeholder((result.shape[-1],), name="b", constant=True)
    other = placeholder(result.shape, name="r")
    added = compute(
        result.shape, lambda n, h, w, o: result[n, h, w, o] + bias[o] + other[n, h, w, o], "sum"
    )
    relu = compute(result.shape, lambda *i: maximum(added[i], 0.0), name="relu")
    return ComputeDAG([relu, added])


def padded_relu() -> Tensor:
    """Of what a stage before it computes."""
    data = image()
    positive = compute(data.shape, lambda *i: maximum(data[i], 0.0), name="positive")
    return conv2d(positive, filters(), 1, 1)


JOINED: Mapping[str, Callable[[], ComputeDAG]] = {
    "one by one": lambda: ComputeDAG([conv2d(image(), filters(1))]),
    "padded": lambda: ComputeDAG([conv2d(image(), filters(), 1, 1)]),
    "strided": lambda: ComputeDAG([conv2d(image(2, 9), filters(), 2, (1, 0, 2, 1))]),
    "dilated": lambda: ComputeDAG([conv2d(image(3, 9), filters(), 1, 2, dilation=2)]),
    "tail": lambda: with_tail(conv2d(image(2), filters(), 1, 1)),
    "after a stage": lambda: ComputeDAG([padded_relu()]),
    "three dimensions": lambda: ComputeDAG([
        conv(placeholder((2, 3, 6, 3, 4), name="x"), placeholder((2, 2, 1, 4, 6), name="w"), 1, 0)
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(JOINED))
def test_the_variant_computes_the_same(name: str, rng: np.random.Generator) -> None:
    dag = JOINED[name]()
    other = implicit_gemm(dag)
    assert other is not None and other.key != dag.key
    assert [(a.name, a.shape) for a in other.output_arrays] == [
        (a.name, a.shape) for a in dag.output_arrays
    ]
    given = random_inputs(dag, rng)
    inputs = {key: array.astype(np.float64) for key, array in given.items()}
    expected, found = interpret(dag, inputs), interpret(other, inputs)
    for key, values in expected.items():
        np.testing.assert_allclose(found[key].reshape(values.shape), values, rtol=0, atol=1e-12)


def twice() -> ComputeDAG:
    first = conv2d(image(), filters(outputs=3), 1, 1, name="y")
    last = placeholder((3, 3, 3, 4), name="v", constant=True)
    return ComputeDAG([conv2d(first, last, 1, 1, name="z")])


def turned() -> ComputeDAG:
    """What reads the convolution walks it in another order."""
    result = conv2d(image(), filters(), 1, 1)
    turned = compute(result.shape, lambda n, h, w, o: result[n, w, h, o], name="turned")
    return ComputeDAG([turned])


OTHERS: Mapping[str, Callable[[], ComputeDAG]] = {
    "matmul": lambda: ComputeDAG([
        matmul(placeholder((7, 5), name="a"), placeholder((5, 3), name="b"))
    ]),
    "large tiles": lambda: ComputeDAG([conv2d(image(1, 56), filters(), 1, 1)]),
    "depthwise": lambda: ComputeDAG([
        conv2d(image(), placeholder((3, 3, 1, 3), name="w"), 1, 1, groups=3)
    ]),
    "one row": lambda: ComputeDAG([
        conv(placeholder((1, 9, 4), name="x"), placeholder((3, 4, 6), name="w"))
    ]),
    "turned": turned,
    "two": twice,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_other_programs_have_no_variant(name: str) -> None:
    assert implicit_gemm(OTHERS[name]()) is None
