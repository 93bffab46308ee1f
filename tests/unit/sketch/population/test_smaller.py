"""Rows whose private buffers are too large are made to fit."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from sketch.population.feasible import feasible
from sketch.population.population import Population, clamp, sample
from sketch.population.smaller import smaller
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from tests.support.targets import AVX512
from tests.support.workloads import attention_dag


@cache
def long_rows() -> Sketch:
    """A chain of two products, with rows of 2,048 elements between them."""
    return generate(attention_dag(4, 2048, 2048, 64), AVX512)[0]


def fitting(population: Population) -> int:
    return int(feasible(population.sketch, population.columns()).sum())


def test_most_rows_can_be_made_to_fit_where_hardly_any_does() -> None:
    drawn = sample(long_rows(), 256, np.random.default_rng(0))
    assert fitting(drawn) < drawn.count // 32
    made = smaller(drawn, np.random.default_rng(1))
    assert fitting(made) == made.count > drawn.count // 2
    assert len(np.unique(made.keys())) > made.count // 2
    np.testing.assert_array_equal(clamp(made.sketch, made.values), made.values)


def test_register_tiles_stay_and_nothing_grows() -> None:
    drawn = sample(long_rows(), 64, np.random.default_rng(0))
    for place in range(drawn.count):
        row = drawn.take([place])
        made = smaller(row, np.random.default_rng(place))
        assert (made.values <= row.values).all()
        tile = [n for n, d in enumerate(row.sketch.decisions) if d.id in row.sketch.unrolled]
        assert (made.values[:, tile] == row.values[:, tile]).all()


def test_rows_that_fit_stay_as_they_are() -> None:
    made = smaller(sample(long_rows(), 64, np.random.default_rng(0)), np.random.default_rng(1))
    again = smaller(made, np.random.default_rng(2))
    np.testing.assert_array_equal(again.values, made.values)


@pytest.mark.parametrize("count", [0, 1])
def test_of_few_rows_there_may_be_none(count: int) -> None:
    drawn = sample(long_rows(), count, np.random.default_rng(0))
    assert smaller(drawn, np.random.default_rng(0)).count <= count
