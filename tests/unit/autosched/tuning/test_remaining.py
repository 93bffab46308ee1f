"""A run ends when what is left of its budget is not worth it, and not before."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autosched.measure.result import Failure, Timing
from autosched.tuning.options import SchedulerOptions, TuneOptions
from autosched.tuning.remaining import fall_of_doubling, history_of, worth_of
from tests.unit.autosched.tuning.test_task_scheduler import Simulation, falling

USUAL = SchedulerOptions(hope_share=0.0, shrink=1.0)


def test_the_next_doubling_is_like_the_last_ones() -> None:
    history = [(n, n**-0.5) for n in (4, 8, 16, 32, 64)]
    expected = 0.5 * math.log(2)
    assert fall_of_doubling(history, 64, USUAL) == pytest.approx(expected)
    flat = [*history, (128, 1 / 8)]
    assert fall_of_doubling(flat, 128, USUAL) == pytest.approx(expected * 3 / 7)
    assert fall_of_doubling(flat, 1024, USUAL) == 0.0
    halved = fall_of_doubling(history, 64, replace(USUAL, shrink=0.5))
    assert halved == pytest.approx(expected * (1 / 2 + 1 / 8 + 1 / 32) / (7 / 4))


def test_what_nobody_tried_is_hoped_for() -> None:
    assert fall_of_doubling([(8, 1.0)], 8, USUAL) == pytest.approx(USUAL.hope)
    assert fall_of_doubling([(8, 1.0)], 16, USUAL) == pytest.approx(USUAL.hope * 3 / 7)
    some = SchedulerOptions(hope_share=0.25, hope=0.1)
    assert fall_of_doubling([(1, 1.0)], 64, some) == pytest.approx(0.1 * 0.25 / 2)


def test_trials_go_where_they_gain_most() -> None:
    def split(left: float) -> float:
        shares = [left * n / 1000 for n in range(1001)]
        return max(
            0.2 * math.log2(1 + a / 30) + 0.05 * math.log2(1 + (left - a) / 20) for a in shares
        )

    for left in (1.0, 40.0, 500.0):
        assert worth_of([0.2, 0.05, 0.0], [30, 20, 1], left) == pytest.approx(split(left), rel=1e-4)
    assert worth_of([0.0], [10], 100.0) == 0.0


def test_a_run_ends_when_nothing_is_left_to_gain() -> None:
    curves = [falling(1.0, 0.5), falling(0.3, 0.2, half=8), falling(1e-4, 1e-5)]
    run = Simulation(curves, TuneOptions(budget_s=1000.0), trial_s=[0.1] * 3)
    trials = run.run()
    assert run.scheduler.stopped == "what is left is worth < 0.3 %"
    assert run.now < 150 and sum(task.best_s for task in run.scheduler.tasks) < 0.7025
    finish = sum(turn.trials for turn in run.turns if turn.finish)
    assert 0.1 < finish / sum(trials) < 0.2
    full = Simulation(curves, TuneOptions(budget_s=1000.0, stop_below=0.0), trial_s=[0.1] * 3)
    full.run()
    assert full.scheduler.stopped == "time"


def test_a_run_that_gains_goes_on() -> None:
    curves = [lambda trials: 1.0 / (1 + trials)] * 2
    run = Simulation(curves, TuneOptions(budget_s=100.0), trial_s=[0.1] * 2)
    run.run()
    assert run.now > 80


def test_trials_alone_are_made_in_full_unless_told() -> None:
    curves = [falling(1.0, 0.5, half=4)] * 2
    options = TuneOptions(trials=4000)
    assert sum(Simulation(curves, options).run()) == 4000
    told = Simulation(curves, replace(options, stop_below=0.003))
    assert 100 < sum(told.run()) < 2000
    assert told.scheduler.enough


def test_a_task_without_a_time_keeps_the_run_going() -> None:
    curves = [falling(1.0, 1.0), lambda trials: math.inf]
    options = TuneOptions(
        trials=600, stop_below=0.01, scheduler=SchedulerOptions(failed_trials=400)
    )
    run = Simulation(curves, options)
    while run.scheduler.tasks[0].trials == 0:
        turn = run.scheduler.next_turn()
        assert turn is not None
        run.answer(turn)
    assert math.isinf(run.scheduler.expected_gain())


def test_earlier_runs_count() -> None:
    results = [Timing((2.0,)), Failure("run", "SIGSEGV", ""), Timing((3.0,)), Timing((1.0,))]
    assert history_of(results) == ((1, 2.0), (4, 1.0))
    run = Simulation([falling(1.0, 1.0)], TuneOptions(trials=1200, stop_below=0.003))
    run.scheduler.restore(0, 1000, 0, 1.0, ((10, 1.0),))
    fresh = Simulation([falling(1.0, 1.0)], TuneOptions(trials=1200, stop_below=0.003))
    fresh.scheduler.restore(0, 1000, 0, 1.0, ((900, 1.0),))
    assert fresh.scheduler.expected_gain() > 10 * run.scheduler.expected_gain() > 0.0
    assert run.scheduler.next_turn() is not None and run.scheduler.enough


def test_a_task_that_starts_again_has_the_whole_budget() -> None:
    """As where a network may not have the variants that its first part was spent on."""
    curves = [falling(1.0, 0.5), falling(0.3, 0.2, half=8)]
    run = Simulation(curves, TuneOptions(budget_s=1000.0), trial_s=[0.1] * 2)
    run.run()
    scheduler = run.scheduler
    assert scheduler.enough and scheduler.time_left_s() < 0 < scheduler.done_share()
    scheduler.restart(0, 2, 0.9)
    assert not scheduler.enough and scheduler.time_left_s() > 500 and scheduler.done_share() < 0.5
    assert scheduler.next_turn() is not None and not scheduler.stopped
