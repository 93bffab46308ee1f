"""What counts as a gain, and when there are too few of them: objectives of any sign."""

from __future__ import annotations

import math

import pytest

from autosched.tuning.objectives import Latencies, Objective
from autosched.tuning.options import TuneOptions
from tests.support.task_curves import Curve, Simulation, falling


def gaining(share: float) -> Curve:
    """Every 32 trials gain the same share."""
    return lambda trials: (1.0 - share) ** (trials / 32)


def logarithm(found: Latencies) -> float:
    return math.log(found.tasks[0])


def above_half(found: Latencies) -> float:
    return max(0.0, found.tasks[0] - 0.5)


@pytest.mark.parametrize("objective", [logarithm, lambda found: -1.0 / found.tasks[0]])
def test_objectives_may_be_negative(objective: Objective) -> None:
    options = TuneOptions(trials=2000, early_stop_trials=200)
    run = Simulation([falling(0.5, 0.1, half=50)], options, objective=objective)
    (trials,) = run.run()
    assert 400 < trials < 2000 and run.scheduler.stopped == "no improvement"
    assert sum(Simulation([gaining(0.1)], options, objective=objective).run()) == 2000


def test_an_objective_may_reach_zero() -> None:
    options = TuneOptions(budget_s=500.0)
    run = Simulation([gaining(0.1)], options, trial_s=[0.5], objective=above_half)
    run.run()
    assert run.scheduler.objective() == 0.0 and run.scheduler.stopped


def test_small_gains_add_up_before_anything_is_stopped() -> None:
    """Each of fewer than ``improvement``."""
    for options in (
        TuneOptions(trials=640, early_stop_trials=96),
        TuneOptions(trials=640, task_early_stop_trials=96),
    ):
        assert Simulation([gaining(0.0015)], options).run() == [640]
    many = Simulation([gaining(0.05)] * 40, TuneOptions(trials=4000, early_stop_trials=320))
    assert sum(many.run()) == 4000
