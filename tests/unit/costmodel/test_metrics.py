"""Ranking metrics on cases that can be checked by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.metrics import (
    best_k,
    labels,
    pairwise_accuracy,
    peak_score,
    rank_correlation,
    top_k_score,
)

SECONDS = np.array([4.0, 1.0, 2.0, np.inf])


def test_labels() -> None:
    assert labels(SECONDS).tolist() == [0.25, 1.0, 0.5, 0.0]
    with pytest.raises(CostModelError):
        labels(np.array([np.nan, np.inf]))


def test_top_k_of_a_perfect_ranking_is_one() -> None:
    assert top_k_score([(SECONDS, SECONDS)], 1) == 1.0


def test_top_k_weighs_tasks_by_time() -> None:
    other = np.array([10.0, 20.0])
    wrong = np.array([2.0, 1.0])  # picks the 20 s program
    assert top_k_score([(SECONDS, SECONDS), (other, wrong)], 1) == pytest.approx(11 / 21)
    assert top_k_score([(SECONDS, SECONDS), (other, wrong)], 2) == 1.0
    assert top_k_score([(SECONDS, SECONDS), (other, wrong)], 1, [5, 1]) == pytest.approx(15 / 25)


def test_an_invalid_pick_costs_a_hundred_thousand_times() -> None:
    assert top_k_score([(SECONDS, np.array([2.0, 2.0, 2.0, 1.0]))], 1) == pytest.approx(1e-5)


def test_peak_score_averages_over_k() -> None:
    predicted = np.array([1.0, 3.0, 2.0, 4.0])  # finds 0.25, then 0.5, then 1
    assert peak_score(SECONDS, predicted, 1) == 0.25
    assert peak_score(SECONDS, predicted, 3) == pytest.approx((0.25 + 0.5 + 1.0) / 3)
    assert peak_score(SECONDS, predicted, 9) == pytest.approx((0.25 + 0.5 + 1.0 + 1.0) / 4)


def test_pairwise() -> None:
    assert pairwise_accuracy(SECONDS, SECONDS) == 1.0
    assert pairwise_accuracy(SECONDS, -SECONDS) == 0.0
    assert pairwise_accuracy(SECONDS, np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(4 / 6)
    with pytest.raises(CostModelError):
        pairwise_accuracy(np.array([1.0]), np.array([1.0]))


def test_best_k_of_a_draft_set() -> None:
    predicted = np.array([1.0, 3.0, 2.0, 4.0])
    assert best_k(SECONDS, predicted, drafted=2) == 0.5
    assert best_k(SECONDS, predicted, drafted=2, k=2) == 0.25
    assert best_k(SECONDS, predicted, drafted=3) == 1.0
    with pytest.raises(CostModelError):
        best_k(SECONDS, predicted, drafted=1, k=2)


def test_scores_of_nothing_are_errors() -> None:
    with pytest.raises(CostModelError, match="no tasks"):
        top_k_score([], 1)
    for score in (
        lambda: top_k_score([(SECONDS, SECONDS)], 0),
        lambda: peak_score(SECONDS, SECONDS, 0),
        lambda: best_k(SECONDS, SECONDS, drafted=3, k=0),
    ):
        with pytest.raises(CostModelError, match="k is at least 1"):
            score()


def test_weights_may_be_an_array() -> None:
    tasks = [(SECONDS, SECONDS), (SECONDS, -SECONDS)]
    expected = top_k_score(tasks, 2, [5.0, 1.0])
    assert top_k_score(tasks, 2, np.array([5.0, 1.0])) == expected  # type: ignore[arg-type]


def brute(metric, predicted: np.ndarray, tied: list[int]) -> float:
    """Mean of a metric over all orders of the tied programs."""
    values = []
    for order in itertools.permutations(range(len(tied))):
        strict = predicted.astype(float)
        strict[tied] += np.array(order) * 1e-6
        values.append(metric(strict))
    return float(np.mean(values))


@pytest.mark.parametrize(
    "metric",
    [
        lambda p: 1.0 / top_k_score([(SECONDS, p)], 1),
        lambda p: 1.0 / top_k_score([(SECONDS, p)], 3),
        lambda p: peak_score(SECONDS, p, 3),
        lambda p: pairwise_accuracy(SECONDS, p),
        lambda p: best_k(SECONDS, p, drafted=2),
        lambda p: best_k(SECONDS, p, drafted=3, k=2),
    ],
)
@pytest.mark.parametrize(
    "predicted, tied",
    [
        ([1.0, 1.0, 1.0, 1.0], [0, 1, 2, 3]),
        ([2.0, 2.0, 1.0, 2.0], [0, 1, 3]),
        ([1.0, 2.0, 2.0, 3.0], [1, 2]),
    ],
)
def test_ties_count_as_any_order_of_them(metric, predicted: list[float], tied: list[int]) -> None:
    found = metric(np.array(predicted))
    assert found == pytest.approx(brute(metric, np.array(predicted), tied))


def test_where_a_program_stands_does_not_matter_to_a_constant_model() -> None:
    constant = np.ones(4)
    for order in itertools.permutations(range(4)):
        seconds = SECONDS[list(order)]
        assert pairwise_accuracy(seconds, constant) == 0.5
        assert peak_score(seconds, constant, 1) == pytest.approx((0.25 + 1.0 + 0.5) / 4)


def test_pairs_of_equal_programs_do_not_count() -> None:
    assert pairwise_accuracy(np.array([1.0, 1.0, 2.0]), np.array([5.0, 3.0, 9.0])) == 1.0
    assert pairwise_accuracy(np.array([1.0, 1.0]), np.array([5.0, 3.0])) == 1.0


def test_rank_correlation_is_spearmans() -> None:
    assert rank_correlation(SECONDS, SECONDS**3) == pytest.approx(1.0)
    assert rank_correlation(SECONDS, -np.array([4.0, 1.0, 2.0, 9.0])) == pytest.approx(-1.0)
    assert rank_correlation(SECONDS, np.ones(4)) == 0.0
    # 1 - 6 sum(d^2) / (n (n^2 - 1)), and Pearson's of the mean ranks where two are equal
    assert rank_correlation(SECONDS, np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(0.4)
    tied = rank_correlation(SECONDS, np.array([2.0, 1.0, 2.0, 3.0]))
    assert tied == pytest.approx(4.5 / np.sqrt(5.0 * 4.5))


def test_predictions_that_are_none_are_errors() -> None:
    undefined = np.array([1.0, np.nan, 2.0, 3.0])
    for predicted, message in ((undefined, "1 of 4 predictions are NaN"), (np.ones(3), "shape")):
        for score in (
            lambda p: top_k_score([(SECONDS, p)], 1),
            lambda p: peak_score(SECONDS, p, 1),
            lambda p: best_k(SECONDS, p, drafted=3),
            lambda p: pairwise_accuracy(SECONDS, p),
            lambda p: rank_correlation(SECONDS, p),
        ):
            with pytest.raises(CostModelError, match=message):
                score(predicted)
