"""The process over decisions: it follows what was measured, and falls back to what is known."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.decision_process import DecisionProcess, MeasuredRows
from costmodel.metrics import rank_correlation
from sketch.population.population import Population, sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from tests.unit.costmodel.conftest import conv_relu


@pytest.fixture(scope="module")
def sketches(target: Target) -> list[Population]:
    """80 rows of each of three sketches."""
    rng = np.random.default_rng(0)
    return [sample(sketch, 80, rng) for sketch in generate(conv_relu(14, 32), target)[:3]]


def bent(population: Population, seed: int = 0) -> np.ndarray:
    """What a draft might get wrong: each decision is best somewhere."""
    best = np.random.default_rng(seed).uniform(0, 5, population.values.shape[1])
    return np.asarray(0.05 * ((np.log2(population.values + 1.0) - best) ** 2).mean(axis=1))


def test_where_it_was_measured_it_says_what_was_measured(sketches: list[Population]) -> None:
    measured = [MeasuredRows(rows, bent(rows) + 0.3 * n) for n, rows in enumerate(sketches)]
    process = DecisionProcess(measured)
    for rows in measured:
        np.testing.assert_allclose(process.errors(rows.population), rows.errors, atol=0.05)


def test_it_ranks_rows_that_were_not_measured(sketches: list[Population]) -> None:
    rows = sketches[0]
    errors = bent(rows)
    process = DecisionProcess([MeasuredRows(rows.take(np.arange(40)), errors[:40])])
    found = process.errors(rows.take(np.arange(40, 80)))
    assert rank_correlation(errors[40:], found) > 0.6


def test_it_averages_noise(sketches: list[Population]) -> None:
    rows = sketches[0]
    noisy = bent(rows) + np.random.default_rng(1).normal(0, 0.1, rows.count)
    found = DecisionProcess([MeasuredRows(rows, noisy)]).errors(rows)
    assert np.abs(found - bent(rows)).mean() < np.abs(noisy - bent(rows)).mean()


def test_of_other_sketches_it_knows_the_mean(sketches: list[Population]) -> None:
    one, _, other = sketches
    process = DecisionProcess([MeasuredRows(one, np.full(one.count, 0.4))])
    np.testing.assert_allclose(process.errors(other), 0.4)
    shifted = DecisionProcess(
        [MeasuredRows(one, np.zeros(one.count)), MeasuredRows(other, np.full(other.count, 0.4))]
    )
    assert shifted.errors(one).mean() < 0.05 and shifted.errors(other).mean() > 0.35
    single = DecisionProcess([MeasuredRows(one.take([0]), np.array([0.7]))])
    np.testing.assert_allclose(single.errors(one), 0.7)
