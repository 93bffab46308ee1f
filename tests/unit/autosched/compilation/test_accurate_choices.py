"""The fastest choices whose errors are small enough together, of one output and of several."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from autosched.compilation.accurate_choices import Choice, within, within_all


def choices(*pairs: tuple[float, float]) -> list[Choice]:
    """(seconds, error) of each."""
    return [Choice(None, seconds, error) for seconds, error in pairs]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(5.0, [0, 0]), (4.5, [0, 1]), (3.5, [1, 0]), (1.0, [1, 1]), (0.0, [1, 1])],
)
def test_the_cheapest_choices_within_the_limit(limit: float, expected: list[int]) -> None:
    tasks = [choices((1.0, 4.0), (2.0, 0.5)), choices((1.0, 3.0), (1.2, 0.5))]
    found = within(tasks, limit)
    assert [task.index(choice) for task, choice in zip(tasks, found, strict=True)] == expected


def test_of_several_choices_the_one_that_is_enough_for_its_time() -> None:
    tasks = [choices((1.0, 4.0), (1.1, 1.0), (3.0, 0.0))]
    assert within(tasks, 2.0) == [tasks[0][1]]
    assert within(tasks, 0.5) == [tasks[0][2]]


@pytest.mark.parametrize("seed", range(40))
def test_no_other_choices_within_the_limit_take_less_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tasks = [choices(*rng.random((rng.integers(1, 4), 2)).tolist()) for _ in range(5)]
    limit = 2.0 * rng.random()
    found = within(tasks, limit)
    squares = sum(choice.error**2 for choice in found)
    allowed = [c for c in product(*tasks) if sum(each.error**2 for each in c) <= limit**2]
    least = min((sum(each.seconds for each in c) for c in allowed), default=None)
    if least is None:
        assert found == [min(task, key=lambda choice: choice.error) for task in tasks]
    elif tuple(task[0] for task in tasks) in allowed:
        assert found == [task[0] for task in tasks]
    else:
        assert squares <= limit**2
        assert sum(choice.seconds for choice in found) == pytest.approx(least)


def test_errors_of_different_outputs_do_not_add_up() -> None:
    tasks = [choices((1.0, 4.0), (2.0, 1.0)), choices((1.0, 4.0), (3.0, 1.0))]
    assert within_all(tasks, [(1.0, 0.0), (0.0, 1.0)], 4.5) == [0, 0]
    assert within_all(tasks, [(1.0, 0.0), (1.0, 0.0)], 4.5) == [1, 0]
    assert within_all(tasks, [(1.0, 0.0), (0.0, 2.0)], 4.5) == [0, 1]
    assert within_all([], [], 1.0) == []


@pytest.mark.parametrize("seed", range(20))
def test_every_output_is_within_the_limit_where_it_can_be(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tasks = [choices(*rng.random((3, 2)).tolist()) for _ in range(6)]
    gains = [tuple((rng.random(3) * (rng.random(3) < 0.6)).tolist()) for _ in tasks]
    limit = 0.3 + rng.random()

    def worst(numbers: Sequence[int]) -> float:
        squares = np.zeros(3)
        for task, gain, number in zip(tasks, gains, numbers, strict=True):
            squares += (np.array(gain) * task[number].error) ** 2
        return float(np.sqrt(squares.max()))

    found = within_all(tasks, gains, limit)
    least = [min(range(3), key=lambda n: task[n].error) for task in tasks]
    if worst([0] * 6) <= limit:
        assert found == [0] * 6
    elif worst(least) <= limit:
        assert worst(found) <= limit
