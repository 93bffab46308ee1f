"""Ranking metrics on cases that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.metrics import best_k, labels, pairwise_accuracy, peak_score, top_k_score

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
