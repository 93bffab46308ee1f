"""The simulated fleet keeps what runners promise, and is as fast as its devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from autosched.measure.protocol import Runner
from autosched.search.learner import Learner
from autosched.tasks.candidate import Candidate
from autosched.testing import RunnerConformance
from autosched.testing.programs import small_task
from autosched.tuning.scheduler import TaskScheduler
from autosched.tuning.task_progress import Turn
from autosched.tuning.task_run import TaskRun
from benchmarks.fleet import SPREAD, TRIAL_S, SimulatedFleet, simulate

ROOT = Path(__file__).parents[3]


class TestSimulatedFleet(RunnerConformance):
    def make(self) -> Runner:
        return SimulatedFleet(3, seed=1)

    def test_devices_work_at_the_same_time(self) -> None:
        runner = SimulatedFleet(3, seed=1)
        began = runner.clock()
        runner.measure(self.task, self.batch)  # a piece of eight, and one of four
        passed = runner.clock() - began
        assert 8 * TRIAL_S * (1 - 4 * SPREAD) < passed < 10 * TRIAL_S * (1 + 4 * SPREAD)


def test_a_run_on_many_devices_makes_all_trials() -> None:
    found = [simulate(devices, 16, 0, [small_task()]) for devices in (0, 2)]
    assert [run.trials for run in found] == [16, 16]
    assert all(0 < run.times[0] < 1 and run.seconds > 0 for run in found)


def test_what_a_policy_does_not_propose_is_left_for_other_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_their_way: list[int] = []
    asked, next_turn = TaskRun.ask, TaskScheduler.next_turn

    def few(run: TaskRun, turn: Turn) -> list[Candidate]:
        return asked(run, turn)[:3]

    def noted(
        scheduler: TaskScheduler, busy: Sequence[Turn] = (), spent_s: float = 0.0
    ) -> Turn | None:
        on_their_way.extend(turn.trials for turn in busy)
        return next_turn(scheduler, busy, spent_s)

    monkeypatch.setattr(TaskRun, "ask", few)
    monkeypatch.setattr(TaskScheduler, "next_turn", noted)
    assert simulate(2, 16, 0, [small_task()]).trials == 16
    assert on_their_way and max(on_their_way) == 3


def test_where_nothing_is_chosen_any_more_nothing_is_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    asked, learn = TaskRun.ask, Learner.learn

    def chosen(run: TaskRun, turn: Turn) -> list[Candidate]:
        told.append("chosen")
        return asked(run, turn)

    def learned(learner: Learner, least: int = 1) -> None:
        told.append("learned")
        learn(learner, least)

    monkeypatch.setattr(TaskRun, "ask", chosen)
    monkeypatch.setattr(Learner, "learn", learned)
    simulate(1, 80, 0, [small_task()])
    assert "learned" in told and told[-1] == "chosen"


def test_the_page_says_what_was_measured() -> None:
    rows = json.loads((ROOT / "benchmarks/results/fleet.json").read_text())["rows"]
    fast, good = rows
    assert all(row["bar"]["holds"] for row in rows)
    page = " ".join((ROOT / "docs/fleet.md").read_text().split())
    assert f"{fast['trials_per_s']:.0f} trials a second in a run of {fast['trials']:,}" in page
    assert f"{fast['share_of_ideal']:.0%}".replace("%", " %") + " of 64 times" in page
    found = f"after {good['trials']:,} trials was {100 * good['loss']:.1f} % slower"
    assert found in page
