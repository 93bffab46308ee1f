"""Copies whose lanes lie far apart are made a square of vectors at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.build import emit
from codegen.host import cpu_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor, compute, placeholder
from sketch.lower.lower import lower
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from tests.support.compiled import check_run
from tests.support.cpu_targets import instruction_sets
from tests.support.workloads import random_inputs

AVX512 = replace(cpu_target("cpu-avx512"), threads=1)


def turned(batch: int, rows: int, columns: int, dtype: str = "float32") -> ComputeDAG:
    x = placeholder((batch, rows, columns), dtype, name="x")
    return ComputeDAG([compute((batch, columns, rows), lambda n, i, j: x[n, j, i], name="y")])


def texts(dag: ComputeDAG) -> list[str]:
    rng, found = np.random.default_rng(0), []
    for sketch in generate(dag, AVX512):
        rows = sample(sketch, 12, rng)
        nests = [lower(sketch, rows.row(n)) for n in range(len(rows.values))]
        found += [emit(nest, AVX512, "k").text for nest in nests]
    return found


@pytest.mark.parametrize("shape", [(1, 96, 112), (1, 112, 96), (2, 28, 48), (1, 64, 14)])
def test_schedules_with_a_loop_along_what_is_read_gather_nothing(
    shape: tuple[int, int, int],
) -> None:
    without = [text for text in texts(turned(*shape)) if "masked.gather" not in text]
    assert without and all("shufflevector <16 x float>" in text for text in without)


def test_other_sizes_are_gathered() -> None:
    found = texts(turned(1, 32, 32, "float64"))
    assert all("masked.gather" in text for text in found)


def scaled(x: Tensor) -> Tensor:
    return compute(x.shape[::-1], lambda i, j: x[j, i] * 2.0, name="y")


@pytest.mark.parametrize("target", instruction_sets())
@pytest.mark.parametrize(
    "shape", [(3, 40, 17), (2, 16, 16), (1, 28, 28), (2, 7, 33), (2, 48, 5), (1, 3, 64)]
)
def test_results_are_right(shape: tuple[int, int, int], target: Target) -> None:
    """Whole squares, last ones that begin earlier, lanes and columns that are left out."""
    for dag in (turned(*shape), turned(*shape, dtype="int32")):
        for seed in range(5):
            check_run(dag, random_inputs(dag, np.random.default_rng(seed)), target, 0, seed)


@pytest.mark.parametrize("target", instruction_sets())
def test_what_is_computed_on_the_way_is_right(target: Target) -> None:
    dag = ComputeDAG([scaled(placeholder((40, 33), name="x"))])
    check_run(dag, random_inputs(dag, np.random.default_rng(0)), target, 0, 0)
