"""Which programs are measured of a task, and how fast choices are over those of the draft."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.own_choices import choices, speeds


def test_the_first_choices_of_both_are_measured_first_and_nothing_twice() -> None:
    rng = np.random.default_rng(0)
    draft, trees = rng.random(40), rng.random(40)
    chosen = choices(draft, trees, rng)
    assert chosen[:2] == [int(draft.argmin()), int(trees.argmin())]
    assert len(set(chosen)) == len(chosen) == 17


def test_of_few_programs_each_is_measured_once() -> None:
    rng = np.random.default_rng(0)
    assert sorted(choices(np.arange(3.0), np.arange(3.0), rng)) == [0, 1, 2]


def test_speeds_are_of_medians_over_turns_and_leave_failures_out() -> None:
    seconds = {
        "draft": [np.array([2.0, 2.0, 9.0]), np.array([1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0])],
        "trees": [np.array([1.0, 7.0, 1.0]), np.array([4.0, 2.0, 2.0]), np.full(3, np.nan)],
    }
    (row,) = speeds(seconds, "draft")
    assert row["name"] == "trees" and row["tasks"] == 2
    assert row["speed"] == pytest.approx(1.0)
    assert row["least"] == pytest.approx(0.5) and row["most"] == pytest.approx(2.0)
