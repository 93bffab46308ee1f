"""Populations of GPU programs: feasibility and features of a batch are those of its rows."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.cuda.build import emit
from codegen.errors import CodegenError
from costmodel.extract import extract
from sketch.lower import lower
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.cuda_programs import GPU
from tests.support.examples import half
from tests.support.workloads import WORKLOADS

NAMES = ("matmul", "dense_relu", "conv2d_relu", "softmax", "argmax")
_ROWS = 48


@pytest.mark.parametrize("name", NAMES)
def test_feasibility_of_a_batch_is_that_of_its_rows(name: str, rng: np.random.Generator) -> None:
    for sketch in generate(WORKLOADS[name](), GPU):
        population = sample(sketch, _ROWS, rng)
        batch = feasible(sketch, population.columns())
        singles = [
            bool(np.all(feasible(sketch, population.row(i)))) for i in range(population.count)
        ]
        assert batch.tolist() == singles


@pytest.mark.parametrize("name", NAMES)
def test_features_of_a_batch_are_those_of_its_rows(name: str, rng: np.random.Generator) -> None:
    dag = WORKLOADS[name]()
    for sketch in generate(dag, GPU):
        population = sample(sketch, _ROWS, rng)
        columns = population.columns()
        batch = extract(lower(sketch, columns), population.count, dag, GPU).values
        assert np.isfinite(batch).all()
        for index in range(0, population.count, 7):
            row = {key: column[index : index + 1] for key, column in columns.items()}
            single = extract(lower(sketch, row), 1, dag, GPU).values
            np.testing.assert_allclose(single[:, :, 0], batch[:, :, index], rtol=1e-6)


@pytest.mark.parametrize("seed", half(range(2)))
@pytest.mark.parametrize(
    "name",
    ["matmul", *(pytest.param(n, marks=pytest.mark.slow) for n in ("dense_relu", "conv2d_relu"))],
)
def test_feasible_rows_keep_the_limits_of_the_target(name: str, seed: int) -> None:
    (sketch,) = generate(WORKLOADS[name](), GPU)
    population = sample(sketch, 2 * _ROWS, np.random.default_rng(seed))
    fits = feasible(sketch, population.columns())
    assert fits.any()
    for index in np.flatnonzero(fits):
        try:
            source = emit(lower(sketch, population.row(int(index))), GPU)
        except CodegenError as error:
            pytest.fail(f"row {population.row(int(index))}: {error}")
        assert all(launch.block <= GPU.threads_per_block for launch in source.launches)
