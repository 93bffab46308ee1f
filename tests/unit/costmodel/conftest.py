"""Small programs with their sketches, shared by the tests of features and models."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from costmodel.extract import extract
from costmodel.features import Features
from sketch.dag.dag import ComputeDAG
from sketch.lang.functions import maximum
from sketch.lang.tensor import compute, placeholder
from sketch.lower import lower
from sketch.operators.conv import conv2d
from sketch.operators.matmul import matmul
from sketch.population.population import Population, sample
from sketch.rules.generate import generate
from sketch.target.target import Target


@pytest.fixture(scope="session")
def target() -> Target:
    return Target(
        "cpu", "znver4", threads=2, vector_bytes=32, registers=16, l1_bytes=32 * 1024,
        l2_bytes=512 * 1024, l3_bytes=8 * 1024 * 1024,
    )  # fmt: skip


def conv_relu(size: int, channels: int, stride: int = 1, dilation: int = 1) -> ComputeDAG:
    data = placeholder((1, size, size, channels), name="data")
    weight = placeholder((3, 3, channels, channels), name="weight", constant=True)
    bias = placeholder((channels,), name="bias", constant=True)
    conv = conv2d(data, weight, stride=stride, padding=1, dilation=dilation)
    relu = compute(
        conv.shape, lambda n, h, w, c: maximum(conv[n, h, w, c] + bias[c], 0.0), name="relu"
    )
    return ComputeDAG([relu])


def product(m: int, n: int, k: int) -> ComputeDAG:
    a = placeholder((m, k), name="a")
    b = placeholder((k, n), name="b", constant=True)
    return ComputeDAG([matmul(a, b)])


def stencil(size: int) -> ComputeDAG:
    x = placeholder((size + 2, size + 2), name="x")
    y = compute(
        (size, size),
        lambda i, j: x[i + 1, j + 1] + x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j],
        name="y",
    )
    return ComputeDAG([y])


@pytest.fixture(
    scope="session",
    params=["conv", "strided", "dilated", "matmul", "prime_matmul", "stencil"],
)
def dag(request: pytest.FixtureRequest) -> ComputeDAG:
    return {
        "conv": lambda: conv_relu(14, 16),
        "strided": lambda: conv_relu(15, 8, stride=2),
        "dilated": lambda: conv_relu(13, 8, dilation=2),
        "matmul": lambda: product(24, 32, 16),
        "prime_matmul": lambda: product(37, 41, 13),
        "stencil": lambda: stencil(19),
    }[request.param]()


@pytest.fixture(scope="session")
def populations(dag: ComputeDAG, target: Target) -> list[Population]:
    """A few programs of every sketch of ``dag``."""
    rng = np.random.default_rng(3)
    return [sample(sketch, 6, rng) for sketch in generate(dag, target)]


@pytest.fixture(scope="session")
def featurise(target: Target) -> Callable[[Population], Features]:
    """Features of a population."""

    def of(population: Population) -> Features:
        nest = lower(population.sketch, population.columns())
        return extract(nest, population.count, population.sketch.dag, target)

    return of


@pytest.fixture(scope="session")
def conv_features(
    target: Target, featurise: Callable[[Population], Features]
) -> tuple[Features, ...]:
    """300 programs of every sketch of a 3x3 convolution."""
    rng = np.random.default_rng(5)
    return tuple(featurise(sample(s, 300, rng)) for s in generate(conv_relu(28, 32), target))
