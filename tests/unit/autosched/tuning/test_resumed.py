"""A run that goes on from a log of another hour: what it knows is timed again first."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.measure.protocol import MeasuredTask
from autosched.measure.result import Failure, MeasureResult, Timing, scaled
from autosched.measure.simulated import SimulatedRunner
from autosched.records.log import RecordLog
from autosched.records.record import Phase, Record, record_of
from autosched.search.options import SearchOptions
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.result import TuneResult
from autosched.tuning.resumed import changes, resumed
from autosched.tuning.run import run_job
from autosched.workloads import get
from sketch.population.population import sample

SEARCH = SearchOptions(population=128, generations=2, sketch_rows=64)


class Machine(SimulatedRunner):
    """Takes ``slowdown`` times as long as usual."""

    def __init__(self, slowdown: float = 1.0) -> None:
        super().__init__()
        self.slowdown, self.again = slowdown, 0

    def answer(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> list[MeasureResult]:
        return [scaled(result, self.slowdown) for result in super().answer(task, candidates)]

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        self.again += 1
        return super().remeasure(task, candidates, rounds)


class Broken(Machine):
    """Nothing that is timed again ends in time."""

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        return [Failure("timeout", "Timeout", "took too long") for _ in candidates]


def tasks() -> list[Task]:
    return [get("GMM").task(1, 64, 64, 64), get("GMM").task(1, 32, 32, 32)]


def run(machine: Machine, log: Path, trials: int) -> TuneResult:
    options = TuneOptions(trials=trials, search=SEARCH)
    return run_job(TuneJob(tasks(), options=options, log=RecordLog(log), runner=machine))


@pytest.fixture(scope="module")
def known() -> dict[float, bytes]:
    """Logs of runs of 48 trials, by how slow the machine was."""
    return {}


@pytest.fixture
def logged(tmp_path: Path, known: dict[float, bytes]) -> Callable[..., Path]:
    """``logged(slowdown)``: a log of such a run, of this test alone."""

    def write(slowdown: float = 1.0) -> Path:
        log = tmp_path / "log.jsonl"
        if slowdown in known:
            log.write_bytes(known[slowdown])
        else:
            run(Machine(slowdown), log, 48)
            known[slowdown] = log.read_bytes()
        return log

    return write


def best_times(result: TuneResult) -> list[float]:
    return [item.seconds for item in result.tasks]


def finals(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.phase == "final"]


@pytest.mark.parametrize("slowdown", [2.0, 0.5])
def test_times_are_those_of_now(
    logged: Callable[..., Path], tmp_path: Path, slowdown: float
) -> None:
    log = logged(slowdown)
    found = run(Machine(), log, 64)
    quiet = run(Machine(), tmp_path / "quiet.jsonl", 64)
    for seconds, wanted in zip(best_times(found), best_times(quiet), strict=True):
        assert seconds == pytest.approx(wanted, rel=0.25)
    assert any(f"2 tasks take {1 / slowdown:.2g}" in line for line in found.warnings)


@pytest.mark.parametrize(
    ("slowdowns", "said"),
    [
        ((), ""),
        ((1.3,), "1 task takes 1.3 times as long"),
        ((1.3, 1.301), "2 tasks take 1.3 times as long"),
        ((1.3, 0.5), "2 tasks take 0.5 to 1.3 times as long"),
    ],
)
def test_what_has_changed_in_words(
    logged: Callable[..., Path], slowdowns: tuple[float, ...], said: str
) -> None:
    records = RecordLog(logged()).read().records
    known = resumed(tasks(), records, None, Machine(), TuneOptions(trials=64), lambda: 0.0)
    changed = [
        replace(item, leaders=item.memory.candidates[:1], slowdown=slowdown)
        for item, slowdown in zip(known, slowdowns, strict=False)
    ]
    assert changes(changed).startswith(said) and bool(changes(changed)) == bool(said)


@pytest.mark.parametrize("slowdown", [1.0, 1.15])
def test_leaders_that_all_fail_change_nothing(logged: Callable[..., Path], slowdown: float) -> None:
    log = RecordLog(logged())
    options = TuneOptions(trials=64, slowdown=slowdown)
    known = resumed(tasks(), log.read().records, None, Broken(), options, lambda: 0.0)
    assert not any(item.leaders for item in known)


@pytest.mark.parametrize("slowdown", [1.0, 1.1])
def test_noise_changes_nothing(logged: Callable[..., Path], slowdown: float) -> None:
    log = logged(slowdown)
    before = len(finals(RecordLog(log).read().records))
    machine = Machine()
    result = run(machine, log, 56)
    assert machine.again > 0
    assert not [line for line in result.warnings if "times as long" in line]
    touched = sum(1 for item in result.tasks if item.trials > 24)
    assert len(finals(RecordLog(log).read().records)) - before <= (4 + 12) * max(touched, 1)


def test_nothing_is_timed_where_nothing_is_searched(logged: Callable[..., Path]) -> None:
    log = logged()
    machine = Machine(3.0)
    result = run(machine, log, 48)
    assert machine.again == 0
    assert result.trials == 0


def test_an_interrupt_while_it_is_timed_ends_the_run(logged: Callable[..., Path]) -> None:
    class Interrupted(Machine):
        def remeasure(self, *arguments: object, **more: object) -> list[MeasureResult]:
            self.again += 1
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("the signal was not noticed")

    log = logged()
    machine = Interrupted()
    result = run(machine, log, 64)
    assert (result.stopped, result.trials, machine.again) == ("interrupted", 0, 1)
    assert all(item.best is not None for item in result.tasks)


def test_all_of_a_task_is_scaled(logged: Callable[..., Path]) -> None:
    """What was slow in the log stays slow beside what is measured now, and a past is forgotten that
    others disturbed."""
    log = logged(2.0)
    options = TuneOptions(trials=96, search=SEARCH)
    records = RecordLog(log).read().records
    for machine, expected in ((Machine(), 0.5), (Machine(8.0), 4.0)):
        for known in resumed(tasks(), records, None, machine, options, lambda: 0.0):
            assert known.slowdown == pytest.approx(expected)
            assert bool(known.history) == (expected > 1)
            for now, then in zip(known.results, known.memory.results, strict=True):
                if isinstance(then, Timing):
                    assert isinstance(now, Timing)
                    assert now.median == pytest.approx(expected * then.median)
            assert known.best_s == min(r.median for r in known.again if isinstance(r, Timing))


def test_time_for_it_is_limited(logged: Callable[..., Path]) -> None:
    log = logged()
    options = replace(TuneOptions(search=SEARCH), budget_s=10.0)
    records = RecordLog(log).read().records
    machine = Machine(2.0)
    clock = iter([0.0, 2.0])
    found = resumed(tasks(), records, None, machine, options, lambda: next(clock))
    assert machine.again == 1
    assert sorted(known.slowdown for known in found) == pytest.approx([1.0, 2.0])


def test_a_task_with_a_new_variant_is_not_exhausted(tmp_path: Path) -> None:
    """As after an update: how much faster an algorithm is that the log lacks is not known."""
    newer = get("C2D").task(1, 8, 8, 16, 16, 3, 1, 1)
    older = newer.reference_only()
    log = RecordLog(tmp_path / "log.jsonl")
    options = TuneOptions(trials=48, search=SEARCH)
    run_job(TuneJob([older], options=options, log=log, runner=Machine()))
    records = log.read().records
    for task, exhausted in ((older, True), (newer, False)):
        (found,) = resumed([task], records, None, Machine(), options, lambda: 0.0)
        assert len(found.results) == 48 and found.best_s < float("inf")
        assert bool(found.history) == exhausted


def test_no_burst_is_faster_than_what_won_in_turns() -> None:
    """Else a candidate that wins against the best would come behind bursts that nobody believes."""
    (task, *_) = tasks()
    sketch = task.draft_candidate().sketch
    rows = sample(sketch, 32, np.random.default_rng(0))
    drawn = [Candidate(sketch, rows.row(n)) for n in range(rows.count)]
    candidates = list({candidate.key: candidate for candidate in drawn}.values())[:3]
    bursts, turns = [0.97, 0.96, 0.95], [1.05, 1.01, 1.03]
    phases: list[tuple[Phase, float, list[float]]] = [("trial", 1.0, bursts), ("final", 2.0, turns)]
    records = [
        record_of(task.key, candidate, task.target, Timing((s,) * 5), phase=phase, time=moment)
        for phase, moment, times in phases
        for candidate, s in zip(candidates, times, strict=True)
    ]
    options = TuneOptions(trials=1)
    (known,) = resumed([task], records, None, Machine(), options, lambda: 0.0)
    medians = [result.median for result in known.results if isinstance(result, Timing)]
    assert medians == pytest.approx([1.01] * 3) and known.best_s == pytest.approx(1.01)
    assert np.argsort(medians).tolist() == [1, 2, 0], "the best, then as their bursts were"
