"""Closed-form estimates of code size against what the passes and the emitter really make."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.build import emit
from codegen.host import cpu_target
from costmodel.extract import extract
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.operators.conv import conv2d
from sketch.operators.matmul import matmul
from sketch.population.population import sample
from sketch.rules.generate import generate


def product() -> ComputeDAG:
    a = placeholder((96, 64), name="a")
    b = placeholder((64, 96), name="b", constant=True)
    return ComputeDAG([matmul(a, b)])


def convolution() -> ComputeDAG:
    data = placeholder((1, 15, 15, 16), name="data")
    weight = placeholder((3, 3, 16, 32), name="weight", constant=True)
    return ComputeDAG([conv2d(data, weight, stride=1, padding=1)])


def ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values))


@pytest.mark.parametrize(
    ("dag", "rows", "least"),
    [
        (product(), 16, 0.6),
        pytest.param(convolution(), 8, 0.3, marks=pytest.mark.slow),
    ],
)
def test_estimated_instructions_rank_like_the_emitted_ones(
    dag: ComputeDAG, rows: int, least: float
) -> None:
    target = cpu_target("cpu-avx2", threads=1)
    rng = np.random.default_rng(0)
    estimated: list[float] = []
    emitted: list[int] = []
    for sketch in generate(dag, target):
        population = sample(sketch, rows, rng)
        nest = lower(sketch, population.columns())
        features = extract(nest, population.count, dag, target)
        estimated += features.column("instructions").sum(axis=0).tolist()
        for index in range(population.count):
            nest = lower(sketch, population.row(index))
            emitted.append(emit(nest, target, "kernel").instructions)
    correlation = np.corrcoef(ranks(np.array(estimated)), ranks(np.array(emitted)))[0, 1]
    assert correlation > least
    ratio = np.array(estimated) / np.array(emitted)
    assert 0.2 < np.median(ratio) < 2.0
