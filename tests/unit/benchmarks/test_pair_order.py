"""Shares of pairs in the right order, by how far their times are apart."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.pair_order import APART, pair_shares


def test_pairs_count_where_they_are_far_enough_apart_and_ties_half() -> None:
    times = np.array([1.0, 1.03, 2.0, np.nan])
    told = np.array([2.0, 1.0, 2.0, 0.0])  # the first two turned round; the third tied with one
    found = pair_shares([(times, told)])
    assert found["0"] == {"right": pytest.approx(1.5 / 3), "of_all": 1.0}
    assert found["0.05"] == {"right": pytest.approx(1.5 / 2), "of_all": pytest.approx(2 / 3)}
    assert len(found) == len(APART)


def test_pairs_are_of_one_task() -> None:
    one, other = np.array([1.0, 2.0]), np.array([10.0, 20.0])
    found = pair_shares([(one, one), (other, -other)])
    assert found["0.2"]["right"] == pytest.approx(0.5)
