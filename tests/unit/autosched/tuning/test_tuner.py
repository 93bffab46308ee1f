from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from autosched.measure.protocol import Ticket
from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.records.log import RecordLog
from autosched.report.events import ProgressSnapshot
from autosched.search.options import SearchOptions
from autosched.search.recall import best_of, recall
from autosched.search.space import Space, space_of
from autosched.search.space_options import SpaceOptions
from autosched.system.errors import OptionError, TaskError, TuningError
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.result import TuneResult
from autosched.tuning.run import run_job
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from tests.support.fake_runner import FakeRunner, digest, landscape, ticking
from tests.support.targets import AVX512, SMALL
from tests.support.workloads import conv2d_relu, dense_relu, matmul_dag, max_pool

ROOT = Path(__file__).parents[4]
SEARCH = SearchOptions(population=256, generations=2, sketch_rows=64)
OPTIONS = TuneOptions(trials=40, search=SEARCH)


@cache
def some_tasks() -> tuple[Task, ...]:
    """The same ones in all tests: what is known of their sketches is found out once."""
    return (
        Task(conv2d_relu(), SMALL, "conv", weight=3),
        Task(dense_relu(), SMALL, "dense"),
        Task(max_pool(), SMALL, "pool"),
    )


def tune(
    runner: FakeRunner, log: Path | None = None, options: TuneOptions = OPTIONS,
    tasks: Sequence[Task] | None = None,
) -> TuneResult:  # fmt: skip
    record_log = None if log is None else RecordLog(log)
    chosen = some_tasks() if tasks is None else tasks
    return run_job(
        TuneJob(
            chosen, runner=runner, log=record_log, options=options, cost_model=small_model(),
            clock=ticking(0), now=lambda: 0.0,
        )
    )  # fmt: skip


def small_model() -> GradientBoostedModel:
    return GradientBoostedModel(GbdtOptions(trees=15))


def test_a_space_is_drawn_when_its_task_has_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def noted(task: Task, options: SpaceOptions) -> Space:
        drawn.append(task.name)
        return space_of(task, options)

    monkeypatch.setattr("autosched.tuning.task_run.space_of", noted)
    tune(FakeRunner(), options=replace(OPTIONS, trials=2))
    assert set(drawn) == {"conv"}


def test_every_trial_is_recorded_and_the_best_is_verified(tmp_path: Path) -> None:
    runner = FakeRunner()
    result = tune(runner, tmp_path / "log.jsonl")
    records = RecordLog(tmp_path / "log.jsonl").read().records
    trials = [record for record in records if record.phase == "trial"]
    assert len(trials) == len(runner.measured) == result.trials == 40
    assert result.records == records
    assert result.stopped == "trials" and not result.interrupted and not result.warnings
    for item in result.tasks:
        assert item.best is not None and item.trials and not item.failures
        best = best_of(item.task, RecordLog(tmp_path / "log.jsonl").read().records)
        assert best is not None and best.candidate.key == item.best.key
        assert item.seconds == landscape(item.best)
    assert result.total_s == sum(item.task.weight * item.seconds for item in result.tasks)
    assert 3 <= runner.verified < 40


def test_what_a_run_measured_is_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.search.recall.Replayer.replay", None)
    result = tune(FakeRunner(), options=replace(OPTIONS, trials=8))
    assert any(item.best is not None for item in result.tasks)


def test_leaders_are_measured_against_each_other_at_the_end() -> None:
    runner = FakeRunner()
    result = tune(
        runner, options=replace(OPTIONS, leaders=3, contenders=0, doubt=math.inf, slowdown=math.inf)
    )
    assert [count for _, count in runner.remeasured] == [3, 3, 3]
    finals = [record for record in result.records if record.phase == "final"]
    assert len(finals) == 9 and result.records[-9:] == tuple(finals)
    assert not [r for r in tune(FakeRunner(), options=replace(OPTIONS, leaders=0)).records
                if r.phase == "final"]  # fmt: skip


def test_equal_seeds_give_equal_sequences() -> None:
    runners = [FakeRunner(), FakeRunner(), FakeRunner()]
    for runner, seed in zip(runners, (1, 1, 2), strict=True):
        tune(runner, options=replace(OPTIONS, seed=seed))
    assert runners[0].sequence() == runners[1].sequence() != runners[2].sequence()


def test_a_fresh_process_gives_the_same_sequence() -> None:
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.unit.autosched.tuning.test_tuner import *\n"
        "runner = FakeRunner()\n"
        "tune(runner)\n"
        "print(digest(runner))"
    )
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": other, "PATH": ""},
    )  # fmt: skip
    runner = FakeRunner()
    tune(runner)
    assert int(done.stdout) == digest(runner)


def test_a_wrong_candidate_is_never_the_best(tmp_path: Path) -> None:
    checks = itertools.count()
    runner = FakeRunner(error=lambda candidate: 0.5 if next(checks) < 3 else 1e-6)
    result = tune(runner, tmp_path / "log.jsonl")
    failures = [r.result for r in result.records if isinstance(r.result, Failure)]
    assert failures and all(f.stage == "verify" and "0.5" in f.message for f in failures)
    for item in result.tasks:
        assert item.best is not None
        firsts = [r for r in result.records if r.task == item.task.key and r.phase == "trial"]
        best = math.inf
        for record in firsts:
            if isinstance(record.result, Timing) and record.result.median < best:
                best = record.result.median
        assert item.seconds <= best


def test_nan_is_wrong() -> None:
    with pytest.raises(TuningError, match="verify: WrongResult"):
        tune(FakeRunner(error=lambda candidate: math.nan), options=replace(OPTIONS, leaders=0))


def test_the_runner_may_have_checked_already() -> None:
    runner = FakeRunner(rule=lambda c: Timing((landscape(c),), error=1e-7))
    tune(runner)
    assert runner.verified == 0
    count = itertools.count()
    wrong = FakeRunner(rule=lambda c: Timing((landscape(c),), error=1e-2 * (next(count) < 5)))
    assert any(isinstance(r.result, Failure) for r in tune(wrong).records)


def test_nothing_runs() -> None:
    broken = FakeRunner(rule=lambda candidate: Failure("compile", "LLVMError", "no such thing"))
    with pytest.raises(TuningError, match="first cause: compile: LLVMError: no such thing"):
        tune(broken, options=replace(OPTIONS, trials=400))
    assert len(broken.measured) < 100
    with pytest.raises(TuningError, match="none of 3 candidates"):
        tune(FakeRunner(rule=broken.time), options=replace(OPTIONS, trials=3))


def test_one_broken_task_is_a_warning_and_does_not_starve_the_others() -> None:
    def rule(candidate: Candidate) -> MeasureResult | None:
        broken = candidate.sketch.dag.stages[-1].name.startswith("pool2d")
        return Failure("run", "SIGSEGV", "crash") if broken else None

    tasks = some_tasks()
    assert tasks[2].dag.stages[-1].name.startswith("pool2d")
    result = tune(FakeRunner(rule), options=replace(OPTIONS, trials=90), tasks=tasks)
    assert result.tasks[2].best is None and result.tasks[2].trials <= 24
    assert any("SIGSEGV" in warning for warning in result.warnings)
    assert math.isinf(result.total_s)
    assert result.tasks[0].best is not None and "no total" in str(result)


def test_resuming_counts_what_the_log_has_and_measures_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    first, second, third = FakeRunner(), FakeRunner(), FakeRunner()
    tune(first, path, replace(OPTIONS, trials=25))
    result = tune(second, path)
    assert len(first.measured) == 25 and len(second.measured) == 15 == result.trials
    sequence = first.sequence() + second.sequence()
    assert len(set(sequence)) == len(sequence)
    done = tune(third, path)
    assert not third.measured and done.trials == 0 and not third.remeasured
    assert [item.seconds for item in done.tasks] == [item.seconds for item in result.tasks]
    assert sum(item.trials for item in done.tasks) == 40


def test_a_killed_run_resumes_from_its_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    script = (
        "import os, signal, sys; sys.path.insert(0, '.')\n"
        "from tests.unit.autosched.tuning.test_tuner import *\n"
        "def kill(number):\n"
        "    if number == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"tune(FakeRunner(on_batch=kill), Path({str(path)!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    before = len(RecordLog(path).read().records)
    with path.open("a") as file:
        file.write('{"v": 1, "task": "torn')
    runner = FakeRunner()
    result = tune(runner, path)
    assert 0 < before < 40 and len(runner.measured) == 40 - before
    assert all(item.best is not None for item in result.tasks)
    assert any("torn" in warning for warning in result.warnings)


def test_ctrl_c_keeps_everything(tmp_path: Path) -> None:
    def interrupt(number: int) -> None:
        if number == 4:
            raise KeyboardInterrupt

    runner = FakeRunner(on_batch=interrupt)
    result = tune(runner, tmp_path / "log.jsonl")
    assert result.interrupted and result.trials == len(runner.measured) > 0
    assert len(RecordLog(tmp_path / "log.jsonl").read().records) == result.trials


class SendsCtrlC:
    """Python drops what a handler raises while this is freed."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_counts_where_python_drops_it(tmp_path: Path) -> None:
    def interrupt(number: int) -> None:
        if number == 4:
            SendsCtrlC()

    before = signal.getsignal(signal.SIGINT)
    runner = FakeRunner(on_batch=interrupt)
    result = tune(runner, tmp_path / "log.jsonl")
    assert result.interrupted and 0 < result.trials == len(runner.measured) < 40
    assert len(RecordLog(tmp_path / "log.jsonl").read().records) == result.trials
    assert signal.getsignal(signal.SIGINT) is before
    assert not tune(FakeRunner(), tmp_path / "log.jsonl").interrupted  # it goes on


def test_records_that_do_not_replay_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    task = Task(matmul_dag(), SMALL)
    tune(FakeRunner(), path, replace(OPTIONS, trials=8, leaders=0), [task])
    records = list(RecordLog(path).read().records)
    records[0] = replace(records[0], variant="winograd")
    records[1] = replace(records[1], steps=({"kind": "fuse", "version": 1},))
    memory = recall(task, records)
    assert len(memory.results) == 6
    assert any("winograd" in warning for warning in memory.warnings)
    assert any("'fuse'" in warning for warning in memory.warnings)


def test_other_machines_give_seeds(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    tune(FakeRunner(), path, replace(OPTIONS, trials=12), [Task(matmul_dag(), SMALL)])
    more = Task(matmul_dag(), SMALL.with_threads(4))
    runner = FakeRunner()
    result = tune(runner, path, replace(OPTIONS, trials=8), [more])
    foreign = recall(more, RecordLog(path).read().records[:12]).seeds
    assert result.trials == 8 and foreign
    assert runner.measured[0][1].key == foreign[0].key


def test_a_space_that_is_used_up_ends_the_run() -> None:
    result = tune(FakeRunner(), tasks=[Task(matmul_dag(1, 2, 2), SMALL)],
                  options=replace(OPTIONS, trials=5000))  # fmt: skip
    assert result.stopped == "nothing left to improve"
    assert result.tasks[0].stopped == "every candidate was measured"


def test_time_budgets_end() -> None:
    options = replace(OPTIONS, trials=None, budget_s=4.0, stop_below=0.0)
    tasks = some_tasks()
    clock = ticking(0.05)
    result = run_job(
        TuneJob(tasks, runner=FakeRunner(), options=options, cost_model=small_model(), clock=clock)
    )
    assert result.stopped == "time" and result.trials > 10
    assert all(item.best is not None for item in result.tasks)


def test_a_batch_that_is_chosen_ahead_ends_in_time() -> None:
    now = [0.0]

    class Slow(FakeRunner):
        def collect(self, ticket: Ticket, best_s: float | None = None) -> list[MeasureResult]:
            now[0] += 0.5 * len(ticket.candidates)
            return super().collect(ticket, best_s)

    options = replace(OPTIONS, trials=None, budget_s=60.0, stop_below=0.0, leaders=0)
    run_job(
        TuneJob(some_tasks()[:2], runner=Slow(), options=options, cost_model=small_model(),
                clock=lambda: now[0])
    )  # fmt: skip
    assert 55.0 <= now[0] <= 61.0


@pytest.mark.parametrize(
    ("tasks", "options", "message"),
    [
        ([], OPTIONS, "no task"),
        ([Task(matmul_dag(), SMALL)], TuneOptions(), "never end"),
        ([Task(matmul_dag(), SMALL)] * 2, OPTIONS, "twice"),
        ([Task(matmul_dag(), SMALL), Task(max_pool(), AVX512)], OPTIONS, "different targets"),
    ],
)
def test_calls_that_make_no_sense(tasks: list[Task], options: TuneOptions, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        run_job(TuneJob(tasks, runner=FakeRunner(), options=options))


def test_tasks_that_make_no_sense() -> None:
    for weight in (0, -1, math.nan, math.inf, 10**400, "2", None, [1]):
        with pytest.raises(TaskError, match=r"weight .* is not a positive finite number"):
            Task(matmul_dag(), SMALL, weight=weight)  # type: ignore[arg-type]
    for target in ("cpu", 5, type(SMALL)):
        with pytest.raises(TaskError, match="is no Target"):
            Task(matmul_dag(), target)  # type: ignore[arg-type]
    for program in (None, 5, "x", [matmul_dag()], {"a": 5}, {"a": None}):
        with pytest.raises(TaskError, match="is no program"):
            Task(program, SMALL)  # type: ignore[arg-type]
    for other in (None, "x", matmul_dag(), SMALL):
        with pytest.raises(TaskError, match="is no task"):
            Task.of(other)  # type: ignore[arg-type]
    with pytest.raises(TaskError, match="at least one variant"):
        Task({}, SMALL)
    with pytest.raises(TaskError, match="different inputs"):
        Task({"a": matmul_dag(), "b": matmul_dag(8, 8, 8)}, SMALL)


class Recorder:
    def __init__(self) -> None:
        self.views: list[ProgressSnapshot] = []
        self.ended: list[str] = []

    def start(self, view: ProgressSnapshot) -> None:
        self.views.append(view)

    def update(self, view: ProgressSnapshot) -> None:
        self.views.append(view)

    def message(self, text: str) -> None:
        raise AssertionError(text)

    def finish(self, view: ProgressSnapshot) -> None:
        self.ended.append(view.stopped)


def test_progress_is_told_after_every_batch() -> None:
    recorder, runner = Recorder(), FakeRunner()
    options = replace(OPTIONS, leaders=0)
    run_job(
        TuneJob(
            some_tasks(), runner=runner, options=options, progress=recorder,
            cost_model=small_model(),
        )
    )  # fmt: skip
    assert len(recorder.views) == 1 + len(runner.batches)
    assert recorder.ended == ["trials"]
    assert [view.trials for view in recorder.views][-1] == 40
    assert recorder.views[-1].rows[0].flops_per_s > 0
    assert math.isinf(recorder.views[0].total_s) and math.isfinite(recorder.views[-1].total_s)


def test_evolution_beats_random_sampling() -> None:
    """On a landscape of which the draft model knows only a part."""
    ratios, task = [], Task(conv2d_relu(), AVX512)
    for seed in range(3):
        best = {}
        for policy, trials in (("random", 96), ("evolutionary", 48)):
            search = SearchOptions(policy=policy, population=512, generations=3)  # type: ignore[arg-type]
            options = TuneOptions(trials=trials, seed=seed, leaders=0, search=search)
            result = tune(FakeRunner(), options=options, tasks=[task])
            best[policy] = result.tasks[0].seconds
        ratios.append(best["evolutionary"] / best["random"])
    assert np.median(ratios) < 1.0
