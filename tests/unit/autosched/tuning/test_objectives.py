from __future__ import annotations

import math

import numpy as np
import pytest

from autosched.system.errors import OptionError
from autosched.tuning.objectives import (
    GeometricSpeedUp,
    Latencies,
    LatencyTargets,
    Objective,
    geometric_mean,
    latencies,
    value_of,
    weighted_sum,
)
from autosched.tuning.options import TuneOptions
from autosched.tuning.scheduler import TaskScheduler
from autosched.tuning.task_progress import TaskInfo

# Two networks; the second task occurs in both.
USAGE = ((2.0, 1.0, 0.0), (0.0, 3.0, 1.0))


def test_latencies_add_up_over_networks() -> None:
    found = latencies(USAGE, [1.0, 10.0, 100.0])
    assert found == Latencies((12.0, 130.0), (1.0, 10.0, 100.0), (2.0, 4.0, 1.0))


def test_values_of_the_objectives() -> None:
    found = latencies(USAGE, [1.0, 10.0, 100.0])
    assert weighted_sum(found) == 142.0
    assert LatencyTargets((20.0, 100.0))(found) == 150.0
    assert GeometricSpeedUp((6.0, 65.0))(found) == pytest.approx(2.0)
    assert GeometricSpeedUp((24.0, 65.0))(found) == pytest.approx(1.0)
    assert geometric_mean(Latencies((5.0,), (1.0, 4.0), (1.0, 1.0))) == pytest.approx(2.0)
    assert geometric_mean(Latencies((5.0,), (1.0, 8.0), (2.0, 1.0))) == pytest.approx(2.0)


@pytest.mark.parametrize("seconds", [(), (0.0,), (-1.0, 2.0), (math.inf,), (math.nan,)])
@pytest.mark.parametrize("kind", [LatencyTargets, GeometricSpeedUp])
def test_times_are_checked(kind: type, seconds: tuple[float, ...]) -> None:
    with pytest.raises(OptionError, match="positive seconds"):
        kind(seconds)


@pytest.mark.parametrize("kind", [LatencyTargets, GeometricSpeedUp])
def test_there_is_one_time_for_each_network(kind: type) -> None:
    with pytest.raises(OptionError, match=r"1 (targets|references) for 2 networks"):
        kind((1.0,))(latencies(USAGE, [1.0, 1.0, 1.0]))


def simulate(objective: Objective, trials: int = 300) -> tuple[TaskScheduler, list[int]]:
    """Tasks of ``USAGE`` that all fall from 1 to 1/2 second in the same way."""
    infos = [TaskInfo(sum(column), 1e6, 1.0) for column in zip(*USAGE, strict=True)]
    options = TuneOptions(trials=trials, finish_share=0.0)
    scheduler = TaskScheduler(infos, options, objective, usage=USAGE)
    while (turn := scheduler.next_turn()) is not None:
        done = scheduler.tasks[turn.task].trials + turn.trials
        scheduler.record(turn.task, turn.trials, 0, 0.5 + 0.5 * 0.5 ** (done / 20))
    return scheduler, [task.trials for task in scheduler.tasks]


def test_a_shared_task_counts_for_all_its_networks() -> None:
    _, trials = simulate(weighted_sum)
    assert trials[1] > trials[0] > trials[2]


def test_a_network_that_reached_its_target_gets_no_more_trials() -> None:
    scheduler, trials = simulate(LatencyTargets((100.0, 1.0)))
    _, even = simulate(LatencyTargets((1.0, 1.0)))
    assert trials[0] < 0.3 * even[0]  # its warm-up only: the first network was there from the start
    assert scheduler.stopped == "trials"


def test_all_targets_reached_ends_the_run() -> None:
    scheduler, trials = simulate(LatencyTargets((2.5, 3.5)), trials=10_000)
    assert scheduler.stopped == "nothing left to improve"
    assert sum(trials) < 300
    found = latencies(USAGE, [task.best_s for task in scheduler.tasks])
    assert found.networks[0] <= 2.5 and found.networks[1] <= 3.5


def test_speed_ups_of_networks_count_alike() -> None:
    """Where the second network takes a hundred times as long, the sum forgets the first."""
    heavy = ((1.0, 0.0), (0.0, 100.0))
    trials: dict[str, list[int]] = {}
    for name, objective in (("sum", weighted_sum), ("speed", GeometricSpeedUp((1.0, 100.0)))):
        infos = [TaskInfo(1.0, 1e6, 1.0), TaskInfo(100.0, 1e6, 1.0)]
        scheduler = TaskScheduler(infos, TuneOptions(trials=200), objective, usage=heavy)
        while (turn := scheduler.next_turn()) is not None:
            done = scheduler.tasks[turn.task].trials + turn.trials
            scheduler.record(turn.task, turn.trials, 0, 0.5 + 0.5 * 0.5 ** (done / 20))
        trials[name] = [task.trials for task in scheduler.tasks]
    assert trials["sum"][0] < 0.5 * trials["sum"][1]
    assert abs(trials["speed"][0] - trials["speed"][1]) <= 40


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "1"])
def test_an_objective_without_a_value_is_an_error(value: object) -> None:
    with pytest.raises(OptionError, match=r"the objective gave .* for Latencies"):
        simulate(lambda found: value)  # type: ignore[arg-type,return-value]


def test_numbers_of_numpy_are_numbers() -> None:
    found = latencies(USAGE, [1.0, 10.0, 100.0])
    assert value_of(lambda found: np.max(found.networks), found) == 130.0


def test_a_network_without_tasks_to_tune_does_not_count() -> None:
    found = latencies([[1.0, 2.0], [0.0, 0.0]], [1e-3, 1e-3])
    assert GeometricSpeedUp((1e-3, 1e-3))(found) == pytest.approx(3.0)
