"""Sums times 1/n are divided by n where n is a number of terms; other products stay."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.passes.means import means
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.loopnest import LoopNest
from sketch.nest.printer import print_nest
from sketch.operators import normalization, reduction
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.compiled import random_run
from tests.support.cpu_targets import runnable


def nests(dag: ComputeDAG) -> list[LoopNest]:
    rng = np.random.default_rng(0)
    return [lower(s, sample(s, 1, rng).row(0)) for s in generate(dag, runnable()[0])]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 1000), (1, 70_000), (40, 100)], ids=str)
def test_means_are_divided_in_every_sketch(shape: tuple[int, int], dtype: str) -> None:
    data = placeholder(shape, dtype=dtype, name="X")
    for nest in nests(ComputeDAG([reduction.mean(data, (1,), name="Y")])):
        assert f"/ {shape[1]}.0" in print_nest(means(nest))
        assert "/" not in print_nest(nest)


@pytest.mark.parametrize("length", [3, 7, 9, 63, 64, 100])
def test_means_that_elements_are_less_are_divided_however_few(length: int) -> None:
    """Of equal elements nothing is left, where the rounding of 1/n would be all that is left."""
    data = placeholder((5, length), name="X")
    dag = ComputeDAG([normalization.normalize(data, (1,), 1e-5, name="Y")])
    for nest in nests(dag):
        text = print_nest(means(nest))
        lines = [line for line in text.splitlines() if " = (Y.mean.sum[" in line]
        divided = [f"/ {length}.0" in line for line in lines]
        assert lines and divided == [length & (length - 1) != 0] * len(lines)


@pytest.mark.parametrize(
    ("length", "factor"), [(1024, 1 / 1024), (9, 1 / 9), (999, 0.3), (999, 1000.0), (999, -0.001)]
)
def test_other_factors_stay(length: int, factor: float) -> None:
    """Powers of two lose nothing, few terms do not pay for a division, others are no means."""
    data, k = placeholder((5, length), name="X"), reduce_axis(length, "k")
    total = compute((5,), lambda i: reducers.sum(data[i, k], k), name="S")
    for nest in nests(ComputeDAG([compute((5,), lambda i: total[i] * factor, name="Y")])):
        assert means(nest) is nest or means(nest).roots is nest.roots


def test_products_of_what_is_no_sum_stay() -> None:
    data, k = placeholder((5, 1000), name="X"), reduce_axis(1000, "k")
    top = compute((5,), lambda i: reducers.max(data[i, k], k), name="M")
    scaled = compute((5, 1000), lambda i, j: data[i, j] * 0.001, name="Z")
    outputs = [compute((5,), lambda i: top[i] * 0.001, name="Y"), scaled]
    for nest in nests(ComputeDAG(outputs)):
        assert means(nest) is nest


@pytest.mark.parametrize("length", [3, 7, 63])
def test_nothing_is_left_of_equal_whole_numbers_without_their_mean(length: int) -> None:
    data = placeholder((4, length), name="X")
    dag = ComputeDAG([normalization.normalize(data, (1,), 1e-5, name="Y")])
    rows = np.repeat(np.float32([[5], [100], [-255], [3]]), length, 1)
    results = random_run(dag, {"X": rows}, runnable()[0], 0, 0, 8)
    assert not results["Y"].any()
