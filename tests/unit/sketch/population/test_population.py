"""Populations: every row is valid, operators are deterministic, keys are stable."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang.tensor import placeholder
from sketch.operators.transposed import conv_transpose
from sketch.population.feasible import feasible
from sketch.population.population import (
    Population,
    among,
    clamp,
    concat,
    crossover,
    deduplicate,
    from_rows,
    mix_nests,
    mutate,
    nests,
    register_tiles,
    row_keys,
    sample,
)
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.targets import AVX512, SMALL
from tests.support.workloads import conv2d_relu, matmul_dag, row_sum

SKETCHES = [s for dag in (matmul_dag(), conv2d_relu()) for s in generate(dag, SMALL)]


def assert_valid(population: Population) -> None:
    sketch = population.sketch
    for n, decision in enumerate(sketch.decisions):
        assert np.isin(population.values[:, n], decision.choices).all()
    assert (clamp(sketch, population.values) == population.values).all()


@pytest.mark.parametrize("sketch", SKETCHES, ids=lambda s: s.key)
def test_sampled_rows_are_valid_and_feasible(sketch: Sketch, rng: np.random.Generator) -> None:
    population = sample(sketch, 256, rng)
    assert_valid(population)
    assert feasible(sketch, population.columns()).mean() > 0.9


@pytest.mark.parametrize("sketch", SKETCHES, ids=lambda s: s.key)
def test_mutation_and_crossover_keep_rows_valid(sketch: Sketch, rng: np.random.Generator) -> None:
    population = sample(sketch, 256, rng)
    mutated = mutate(population, rng)
    assert_valid(mutated)
    changed = (mutated.values != population.values).any(axis=1)
    assert changed.mean() > 0.3
    children = crossover(population, mutated, rng)
    assert_valid(children)
    from_either = (children.values == population.values) | (children.values == mutated.values)
    assert from_either.all()


def test_mutation_reaches_every_decision(rng: np.random.Generator) -> None:
    sketch = SKETCHES[0]
    start = sample(sketch, 1, rng)
    many = mutate(start.take(np.zeros(2000, dtype=np.intp)), rng)
    assert ((many.values != start.values).any(axis=0)).all()


def test_rows_round_trip_by_name(rng: np.random.Generator) -> None:
    population = sample(SKETCHES[0], 8, rng)
    rows = [population.row(n) for n in range(8)]
    assert (from_rows(SKETCHES[0], rows).values == population.values).all()
    with pytest.raises(ScheduleError, match="no value for decision"):
        from_rows(SKETCHES[0], [{}])


def test_deduplicate_keeps_first_occurrences(rng: np.random.Generator) -> None:
    population = sample(SKETCHES[0], 50, rng)
    twice = concat([population, population])
    unique = deduplicate(twice)
    assert unique.count == len({tuple(row) for row in population.values.tolist()})
    assert (unique.values[0] == population.values[0]).all()


def test_the_same_seed_gives_the_same_rows_in_another_process() -> None:
    program = (
        "import numpy as np\n"
        "from tests.support.targets import SMALL\n"
        "from tests.support.workloads import conv2d_relu\n"
        "from sketch.rules.generate import generate\n"
        "from sketch.population.population import mutate, row_keys, sample\n"
        "rng = np.random.default_rng(7)\n"
        "for s in generate(conv2d_relu(), SMALL):\n"
        "    print(s.key, row_keys(mutate(sample(s, 64, rng), rng).values).sum())\n"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(runs) == 1
    assert runs.pop().count("\n") == len(generate(conv2d_relu(), SMALL))


def test_keys_differ_when_columns_swap() -> None:
    values = np.array([[1, 2], [2, 1], [1, 2]], dtype=np.int64)
    keys = row_keys(values)
    assert keys[0] == keys[2] != keys[1]


def test_hashes_among_others(rng: np.random.Generator) -> None:
    keys = rng.integers(0, 40, 30, dtype=np.uint64) + np.uint64(2**64 - 41)
    for count in (0, 1, 20):
        known = rng.permutation(keys)[:count] ^ np.uint64(count % 2)
        np.testing.assert_array_equal(among(keys, known), [key in known for key in keys])


def test_a_sketch_without_decisions_has_one_row(rng: np.random.Generator) -> None:
    sketches = [s for s in generate(row_sum(1, 40), AVX512) if not s.decisions]
    for sketch in sketches:
        assert sample(sketch, 100, rng).count == 1


@pytest.mark.parametrize("target", [AVX512, cuda_target("sm_90")], ids=["cpu", "gpu"])
def test_nests_of_one_kernel_fit_independently(target: Target, rng: np.random.Generator) -> None:
    """Four phases of a transposed convolution: rows fit all of them, and tiles are not trivial."""
    data = placeholder((1, 9, 9, 16), name="data")
    weight = placeholder((3, 3, 16, 48), name="weight", constant=True)
    dag = ComputeDAG(conv_transpose(data, weight, 2, 1, output_padding=1))
    for sketch in generate(dag, target):
        assert len(nests(sketch)) == 4
        mixed = mix_nests(sample(sketch, 256, rng), rng)
        fits = feasible(sketch, mixed.columns())
        assert fits.mean() > 0.5
        if target.kind == "cpu":
            assert all(len(tiles) > 100 for _, tiles in register_tiles(sketch))
