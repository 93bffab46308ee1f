from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from autosched.search.options import SearchOptions
from autosched.system.errors import OptionError
from autosched.tuning.objectives import Latencies
from autosched.tuning.options import SchedulerOptions, TuneOptions
from autosched.tuning.scheduler import TaskScheduler
from autosched.tuning.task_progress import TaskInfo, Turn
from tests.support.task_curves import Simulation, falling


def test_the_budget_of_trials_is_kept_to_the_letter() -> None:
    for trials in (1, 3, 17, 100, 1001):
        run = Simulation([falling(1, 0.5)] * 5, TuneOptions(trials=trials))
        assert sum(run.run()) == trials
        assert run.scheduler.stopped == "trials"


def test_every_task_is_measured_before_any_is_measured_much() -> None:
    run = Simulation([falling(1, 0.5)] * 6, TuneOptions(trials=240))
    run.run(limit=6)
    assert {turn.task for turn in run.turns} == set(range(6))
    assert sum(turn.trials for turn in run.turns) <= 80


def test_small_budgets_go_to_heavy_tasks_first() -> None:
    curves = [falling(1e-3, 1e-3), falling(1.0, 1.0), falling(1e-2, 1e-2)]
    run = Simulation(curves, TuneOptions(trials=4))
    run.run()
    assert run.turns[0].task == 1
    assert run.turns[0].trials >= max(turn.trials for turn in run.turns)


def test_heavy_tasks_get_more() -> None:
    curves = [falling(1.0, 0.5), falling(0.05, 0.025)]
    trials = Simulation(curves, TuneOptions(trials=400)).run()
    assert trials[0] > 2 * trials[1]
    by_weight = Simulation([falling(1, 0.5)] * 2, TuneOptions(trials=400), weights=[9, 1]).run()
    assert by_weight[0] > 2 * by_weight[1]


def test_improving_tasks_get_more_than_steady_ones() -> None:
    curves = [falling(1.0, 0.1, half=100), falling(1.0, 1.0)]
    trials = Simulation(curves, TuneOptions(trials=200)).run()
    steady = Simulation([falling(1.0, 1.0)] * 2, TuneOptions(trials=200)).run()
    recent = Simulation([falling(1.0, 1e-9, half=40), falling(1, 1)], TuneOptions(trials=60))
    recent.run(limit=2)
    gains = recent.scheduler.gains()
    assert abs(steady[0] - steady[1]) <= 32
    assert sum(trials) == 200 and all(trials)
    assert len(gains) == 2 and min(gains) > 0


def test_the_gain_looks_back_over_the_last_batches() -> None:
    run = Simulation([falling(1.0, 0.0, half=30), falling(1.0, 1.0)], TuneOptions(trials=1000))
    for turn in (Turn(0, 8), Turn(1, 8), Turn(0, 8), Turn(1, 8)):
        run.answer(turn)
    same = Simulation([falling(0.48, 0.48)] * 2, TuneOptions(trials=1000))
    for turn in (Turn(0, 8), Turn(1, 8), Turn(0, 8), Turn(1, 8)):
        same.answer(turn)
    improving = run.scheduler.gains()[0] / run.scheduler.tasks[0].best_s
    steady = same.scheduler.gains()[0] / same.scheduler.tasks[0].best_s
    assert improving > steady


def test_a_kind_of_copies_says_nothing_of_speed() -> None:
    run = Simulation(
        [falling(1, 0.5)] * 3, TuneOptions(trials=200), kinds=["a"] * 3, flops=[0.0, 0.0, 1e3]
    )
    for turn in (Turn(0, 8), Turn(1, 8)):
        run.answer(turn)
    ahead = run.scheduler.next_turn([Turn(2, 8)])  # nothing is known of the third one yet
    assert ahead is not None
    assert ahead.task in {0, 1}


def test_a_task_slower_than_its_kind_has_more_to_gain() -> None:
    def gains(kinds: Sequence[object]) -> list[float]:
        curves = [falling(1.0, 1.0), falling(0.01, 0.01)]
        run = Simulation(curves, TuneOptions(trials=1000), kinds=kinds, flops=[1e9, 1e9])
        for turn in [Turn(0, 8), Turn(1, 8)] * 12:
            run.answer(turn)
        return run.scheduler.gains()

    assert gains(["conv", "conv"])[0] > 2 * gains(["conv", "pool"])[0]


def test_time_budgets_end_in_time_and_count_gains_per_second() -> None:
    options = TuneOptions(budget_s=60.0)
    run = Simulation([falling(1, 0.5)] * 2, options, trial_s=[0.01, 0.2])
    trials = run.run()
    assert run.scheduler.stopped == "time"
    assert run.now <= 60.0 + 0.2 * 2
    assert trials[0] > 2 * trials[1]


def test_batches_shrink_towards_the_end_of_the_time() -> None:
    options = TuneOptions(budget_s=30.0, stop_below=0.0)
    run = Simulation([falling(1, 0.5)], options, trial_s=[0.1])
    run.run()
    assert run.turns[-1].trials < max(turn.trials for turn in run.turns)
    assert run.now == pytest.approx(30.0, abs=0.2)


def test_slow_trials_of_an_emulated_device_leave_time_for_other_tasks() -> None:
    """The first batch is chosen before any trial was timed."""
    options = TuneOptions(budget_s=40.0)
    runs = [
        Simulation([falling(1, 0.5)] * 12, each, trial_s=[2.0] * 12)
        for each in (options, options.emulated)
    ]
    known, emulated = (run.run() for run in runs)
    assert runs[0].turns[0].trials == 20 and runs[1].turns[0].trials <= 4
    assert sum(trials > 0 for trials in emulated) > 2 * sum(trials > 0 for trials in known)
    assert runs[1].now <= 40.0 + 2.0
    assert options.emulated.emulated == options.emulated


def test_trials_of_a_task_are_kept_to_the_letter() -> None:
    curves = [falling(1.0, 0.1), falling(0.01, 0.001), lambda trials: math.inf]
    run = Simulation(curves, TuneOptions(budget_s=1e6, task_trials=8), trial_s=[0.1] * 3)
    assert run.run() == [8, 8, 8] and run.scheduler.stopped == "trials"
    again = Simulation(curves, TuneOptions(task_trials=8))
    again.scheduler.restore(0, 5, 0, 0.5)
    again.scheduler.restore(1, 9, 0, 0.5)
    assert again.run() == [8, 9, 8]


def test_time_for_the_end_is_kept_back() -> None:
    scheduler = TaskScheduler(
        [TaskInfo(1, 1, 1)], TuneOptions(budget_s=10.0), clock=lambda: 9.5, reserve_s=1.0
    )
    assert scheduler.next_turn() is None and scheduler.stopped == "time"


def test_a_task_that_never_runs_does_not_starve_the_others() -> None:
    run = Simulation([lambda trials: math.inf, falling(1, 0.5)], TuneOptions(trials=300))
    trials = run.run()
    assert trials[0] <= 40 and trials[1] >= 260
    assert run.scheduler.tasks[0].stopped == "nothing runs"


def test_a_task_that_never_ran_is_tried_again_by_the_next_run() -> None:
    """The measuring processes may have been killed; the run that goes on knows no such cause."""
    run = Simulation([falling(1, 0.5)], TuneOptions(trials=64))
    run.scheduler.restore(0, 40, 40, math.inf)
    turn = run.scheduler.next_turn()
    assert turn is not None and turn.task == 0
    assert sum(run.run()) == 64


def test_all_tasks_stopped_ends_the_run() -> None:
    run = Simulation([falling(1, 1)] * 2, TuneOptions(trials=100))
    run.scheduler.stop_task(0, "every candidate was measured")
    run.scheduler.stop_task(1, "every candidate was measured")
    assert run.scheduler.next_turn() is None
    assert run.scheduler.stopped == "nothing left to improve"


def test_early_stopping_of_a_task() -> None:
    options = TuneOptions(trials=1000, task_early_stop_trials=48)
    run = Simulation([falling(1, 1), falling(1, 0.01, half=200)], options)
    trials = run.run()
    assert run.scheduler.tasks[0].stopped == "no improvement"
    assert trials[0] < 120 and trials[1] > 800


def test_early_stopping_of_the_run() -> None:
    run = Simulation([falling(1, 0.5, half=5)] * 3, TuneOptions(trials=9000, early_stop_trials=150))
    assert sum(run.run()) < 1000
    assert run.scheduler.stopped == "no improvement"


def test_replacing_an_estimate_is_no_lack_of_improvement() -> None:
    """Real times far above the estimates must not look like 'nothing improved'."""
    infos = [TaskInfo(1, 1e6, 1e-9)] * 2
    scheduler = TaskScheduler(infos, TuneOptions(trials=500, early_stop_trials=40))
    for n in range(2):
        scheduler.record(n, 8, 0, 1.0)
    scheduler.record(0, 8, 0, 0.9)
    scheduler.record(0, 36, 0, 0.9)
    assert scheduler.next_turn() is not None


def test_round_robin() -> None:
    options = TuneOptions(trials=300, strategy="round-robin", finish_share=0.0)
    run = Simulation([falling(1, 0.5), falling(100, 1), falling(1, 0.1)], options)
    run.run()
    tasks = [turn.task for turn in run.turns[3:]]
    assert tasks == [n % 3 for n in range(tasks[0], tasks[0] + len(tasks))]


def test_the_last_part_is_the_finish() -> None:
    run = Simulation([falling(1, 0.5)] * 2, TuneOptions(trials=200, finish_share=0.2))
    run.run()
    finish = [turn.finish for turn in run.turns]
    assert finish == sorted(finish)
    assert 20 <= sum(turn.trials for turn in run.turns if turn.finish) <= 40


def test_restored_tasks_need_no_warm_up() -> None:
    run = Simulation([falling(1, 0.5)] * 2, TuneOptions(trials=100))
    run.scheduler.restore(0, 40, 2, 0.8)
    turn = run.scheduler.next_turn()
    assert turn is not None and turn.task == 1
    assert sum(run.run()) == 100
    assert run.scheduler.tasks[0].failed == 2


def test_an_objective_of_the_user() -> None:
    def worst(found: Latencies) -> float:
        return max(found.tasks)

    curves = [falling(1.0, 0.9), falling(0.5, 0.1)]
    trials = Simulation(curves, TuneOptions(trials=200), objective=worst).run()
    assert trials[0] > 3 * trials[1]


def test_batches_are_no_larger_than_allowed() -> None:
    options = TuneOptions(trials=5000, search=SearchOptions(batch_trials=24))
    run = Simulation([falling(1, 0.5)], options)
    run.run()
    sizes = [turn.trials for turn in run.turns]
    assert max(sizes) == 24 and sizes[0] == 20  # young tasks learn most from each batch


def test_while_a_task_is_busy_another_one_is_next() -> None:
    run = Simulation([falling(1, 0.5), falling(0.1, 0.05)], TuneOptions(trials=100))
    for n in range(2):
        run.answer(Turn(n, 8))
    first = run.scheduler.next_turn()
    assert first is not None and first.task == 0
    second = run.scheduler.next_turn([first])
    assert second is not None and second.task == 1
    run.scheduler.stop_task(1, "every candidate was measured")
    assert run.scheduler.next_turn([first]) is None and not run.scheduler.stopped


def test_a_busy_batch_counts_against_the_trials() -> None:
    run = Simulation([falling(1, 0.5)] * 2, TuneOptions(trials=20))
    run.answer(Turn(0, 8))
    run.answer(Turn(1, 8))
    last = run.scheduler.next_turn([Turn(0, 3)])
    assert last == Turn(1, 1, finish=False)
    assert run.scheduler.next_turn([Turn(0, 4)]) is None


def test_a_busy_batch_counts_against_the_time() -> None:
    """The next one begins when it ends: it has only what is left then."""
    options = TuneOptions(budget_s=40.0, stop_below=0.0, finish_share=0.0)
    run = Simulation([falling(1, 0.5)] * 2, options, trial_s=[0.5, 0.5])
    for turn in (Turn(0, 30), Turn(1, 30)):
        run.answer(turn)

    def fitting(busy: Sequence[Turn], spent_s: float = 0.0) -> int:
        turn = run.scheduler.next_turn(busy, spent_s)
        return 0 if turn is None else turn.trials

    # ten seconds are left, of which the busy one takes eight
    assert fitting(()) == pytest.approx(20, abs=3)
    assert fitting([Turn(0, 16)]) == pytest.approx(4, abs=1)
    assert fitting([Turn(0, 16)], spent_s=6.0) == pytest.approx(16, abs=3)
    assert fitting([Turn(0, 16)], spent_s=60.0) == fitting(())
    assert fitting([Turn(0, 30)]) == 0 and not run.scheduler.stopped


def turns(constants: SchedulerOptions) -> list[Turn]:
    """Of a run of four tasks, two of one kind, one that never has a success."""
    curves = [
        falling(4e-3, 1e-3, 30), falling(9e-3, 3e-3, 15), falling(2e-3, 5e-4, 60),
        lambda trials: math.inf,
    ]  # fmt: skip
    run = Simulation(
        curves, TuneOptions(trials=400, budget_s=60.0, stop_below=0.0, scheduler=constants),
        trial_s=[0.05, 0.2, 0.06, 0.1], kinds=["a", "a", "b", "c"], flops=[4e6, 1e6, 1e6, 1e6],
        reserve_s=45.0,
    )  # fmt: skip
    run.run()
    return run.turns


@pytest.mark.parametrize(
    "change",
    [{"alpha": 0.9}, {"window": 1}, {"beta": 20.0}, {"kind_trust": 0.5}, {"rounds": 12},
     {"rounds": 60, "least_batch": 15}, {"young_batch": 6}, {"warm_up_share": 0.05},
     {"even_share": 0.0}, {"trial_s": 1.0}, {"trial_prior": 200},
     {"failed_batches": 9}, {"failed_trials": 60}, {"search_share": 1.0}],
)  # fmt: skip
def test_every_constant_acts(change: dict[str, float]) -> None:
    usual = SchedulerOptions(rounds=60 if "least_batch" in change else 2)
    assert turns(replace(usual, **change)) != turns(usual)  # type: ignore[arg-type]


def test_constants_are_checked() -> None:
    for change in ({"alpha": 2.0}, {"window": 0}, {"trial_s": 0.0}, {"beta": -1.0}):
        with pytest.raises(OptionError, match=next(iter(change))):
            SchedulerOptions(**change)  # type: ignore[arg-type]


def test_many_trials_in_flight_are_of_all_tasks_and_in_larger_turns() -> None:
    infos = [TaskInfo(1.0, 1e6, seconds) for seconds in (1.0, 0.9)]
    one, many = (
        TaskScheduler(infos, TuneOptions(trials=4000), in_flight=count) for count in (0, 600)
    )
    for scheduler in (one, many):
        for n in range(2):
            scheduler.record(n, 300, 0, infos[n].estimate_s)
    small = one.next_turn()
    assert small is not None and one.next_turn([Turn(0, 9), Turn(1, 9)]) is None
    flying: list[Turn] = []
    for _ in range(4):
        turn = many.next_turn(flying)
        assert turn is not None and turn.trials == 300 > small.trials
        flying.append(turn)
    assert {turn.task for turn in flying[:2]} == {turn.task for turn in flying[2:]} == {0, 1}
    assert many.next_turn([Turn(0, 1700), Turn(1, 1700)]) is None and many.stopped == "trials"
