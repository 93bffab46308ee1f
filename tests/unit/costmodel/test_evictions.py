"""Rows of a tile that push each other out of the first cache."""

from __future__ import annotations

import numpy as np

from costmodel.extract.quantity import power_of_two


def test_the_bound_may_be_one_for_each_candidate() -> None:
    """Replays of a recording give a column where each candidate has a number of its own."""
    steps, pages = np.array([96.0, 8192.0, 7.0]), np.array([4096.0, 4096.0, 16.0])
    assert np.array_equal(power_of_two(steps, pages), [32.0, 4096.0, 1.0])
    assert np.array_equal(power_of_two(steps, 64.0), [32.0, 64.0, 1.0])
    assert power_of_two(96.0, 4096.0) == 32.0
