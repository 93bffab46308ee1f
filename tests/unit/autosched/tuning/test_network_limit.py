"""Tasks whose variants together would leave a network's outputs too inaccurate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.conv import Conv
from autosched.measure.result import Timing
from autosched.records.log import RecordLog
from autosched.records.record import Record
from autosched.report.events import Quiet
from autosched.search.learner import Learner
from autosched.search.options import SearchOptions
from autosched.search.space import space_of
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.tuning.job import TuneJob
from autosched.tuning.networks import tune_networks
from autosched.tuning.options import TuneOptions
from autosched.tuning.result import TuneResult
from autosched.tuning.run import run_job
from autosched.tuning.task_run import TaskRun, verify_new_best
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.errors import AutoschedError
from sketch.lang.tensor import placeholder
from sketch.operators.conv import conv2d
from tests.support.fake_runner import FakeRunner, landscape
from tests.support.targets import SMALL

TRIALS = 96
ERRORS = {"direct": 3e-7, "winograd-4": 6e-7, "winograd-6": 3e-6}
SPEEDS = {"direct": 1.0, "winograd-4": 0.5, "winograd-6": 1e-3}


@pytest.fixture(autouse=True)
def runs_of_few_trials_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.tuning.network_limit._LEAST_TRIALS", 1)


class Told(Quiet):
    """Keeps the messages."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


def task(width: int = 8) -> Task:
    weight = placeholder((3, 3, 16, 16), name="w", constant=True)
    return Task(
        ComputeDAG([conv2d(placeholder((1, 8, width, 16), name="x"), weight, 1, 1, name="y")]),
        SMALL,
    )


def by_variant(candidate: Candidate) -> Timing:
    """The fewer products, the faster, and the larger the error."""
    variant = candidate.sketch.variant
    error = ERRORS[variant]
    errors = () if variant == "direct" else (error, error)
    return Timing((landscape(candidate) * SPEEDS[variant],), error=error, variant_errors=errors)


class Find:
    """Error limits, and what was known each time that somebody asked."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        self.limits, self.asked = limits, list[int]()

    def __call__(self, records: Sequence[Record]) -> Mapping[str, float]:
        self.asked.append(len(records))
        return self.limits


def run(
    tasks: Sequence[Task], find: Find, told: Told | None = None, log: RecordLog | None = None
) -> tuple[TuneResult, FakeRunner]:
    runner = FakeRunner(rule=by_variant)
    options = TuneOptions(trials=TRIALS * len(tasks), search=SearchOptions(batch_trials=8))
    job = TuneJob(
        tasks, runner=runner, options=options, error_limits=find, progress=told or Told(), log=log
    )
    return run_job(job), runner


def test_the_search_goes_on_with_variants_that_are_accurate_enough(tmp_path: Path) -> None:
    first, second, told, log = task(), task(6), Told(), RecordLog(tmp_path / "log.jsonl")
    find = Find({first.key: 1e-6})
    result, runner = run((first, second), find, told, log)
    assert len(find.asked) == 1, "once"
    assert 0.35 * 2 * TRIALS <= find.asked[0] < TRIALS, "while most of the trials are left"
    assert result.trials == 2 * TRIALS, "those that do not count any more were made"
    best = {item.task.key: item.best for item in result.tasks}
    names = {key: candidate.sketch.variant for key, candidate in best.items() if candidate}
    assert names == {first.key: "winograd-4", second.key: "winograd-6"}
    later = [c for key, c in runner.measured[find.asked[0] + 16 :] if key == first.key]
    accurate = sum(c.sketch.variant == "winograd-4" for c in later)
    assert accurate > len(later) / 2
    assert f"more accurate variants are searched for {first.name}" in told.lines
    assert all(isinstance(record.result, Timing) for record in log.read().records)


def test_a_limit_that_no_variant_keeps_leaves_the_task_as_it_is_written() -> None:
    found = task()
    result, _ = run([found], Find({found.key: 0.0}))
    (item,) = result.tasks
    assert item.best is not None and item.best.sketch.variant == "direct"


def test_a_network_that_is_accurate_enough_changes_nothing() -> None:
    told = Told()
    with_limit = run([task()], Find({}), told)[1].sequence()
    without = run([task()], Find({}))[1].sequence()
    assert with_limit == without
    assert not any("more accurate" in line for line in told.lines)


def test_what_is_not_known_is_said_and_nothing_is_lost() -> None:
    class Broken(Find):
        def __call__(self, records: Sequence[Record]) -> Mapping[str, float]:
            raise AutoschedError("no code can be made of it")

    told = Told()
    result, _ = run([task()], Broken({}), told)
    assert result.trials == TRIALS
    assert any("no code can be made of it" in line for line in told.lines)


@pytest.mark.parametrize(("trials", "budget_s"), [(32, 59.0), (None, 1.0), (16, None)])
def test_errors_are_not_looked_at_in_a_run_of_seconds(
    monkeypatch: pytest.MonkeyPatch, trials: int | None, budget_s: float | None
) -> None:
    monkeypatch.undo()  # the usual least trials
    find = Find({})
    options = TuneOptions(trials=trials, budget_s=budget_s, stop_below=0.0)
    run_job(TuneJob([task()], runner=FakeRunner(), options=options, error_limits=find))
    assert not find.asked


def differences() -> Network:
    """Convolutions of 3x3: of the results of the first, pairs differ by a thousandth, and the
    second takes their differences.
    """
    channels = 16
    rng = np.random.default_rng(0)
    first = rng.standard_normal((channels, channels, 3, 3), np.float32) / 12
    second = np.zeros_like(first)
    first[1::2] = first[::2] + first[1::2] / 1000
    for pair in range(0, channels, 2):
        second[pair : pair + 2, pair, 1, 1] = 1
        second[pair : pair + 2, pair + 1, 1, 1] = -1
    builder = GraphBuilder("differences")
    value = builder.input(Value("image", (1, channels, 12, 12)))
    for n, (weight, pad) in enumerate(((first, 1), (second, 0))):
        constant = builder.constant(f"w{n}", weight)
        value = builder.add(Conv((1, 1), (pad,) * 4), [value, constant])
    return Network("differences", builder.finish({"result": value}))


@pytest.mark.parametrize(("error", "variant"), [(1e-9, "winograd-6"), (3e-6, "direct")])
def test_a_layer_whose_errors_grow_gets_less_of_them(error: float, variant: str) -> None:
    """Each error of the first layer is a thousand times as large in the output."""

    def rule(candidate: Candidate) -> Timing:
        found = by_variant(candidate)
        errors = () if candidate.sketch.variant == "direct" else (error, error)
        return Timing(found.seconds, error=1e-7, variant_errors=errors)

    options = TuneOptions(trials=2 * TRIALS, search=SearchOptions(batch_trials=8))
    job = TuneJob(runner=FakeRunner(rule=rule), options=options)
    found = tune_networks([differences()], host_target(1), job).networks[0].result
    best = {item.task.name: item.best.sketch.variant for item in found.tasks if item.best}
    assert (best["conv2d.1"], best["conv2d.2"]) == (variant, "winograd-6")


def test_nothing_is_compiled_where_no_error_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tasks are the fastest as they are written."""

    def build(*_: object) -> None:
        raise AssertionError("a network was compiled")

    monkeypatch.setattr("autosched.compilation.network.build_contents", build)

    def rule(candidate: Candidate) -> Timing:
        direct = candidate.sketch.variant == "direct"
        return Timing((landscape(candidate) * (1e-3 if direct else 1.0),), error=1e-7)

    told = Told()
    options = TuneOptions(trials=2 * TRIALS, search=SearchOptions(batch_trials=8))
    job = TuneJob(runner=FakeRunner(rule=rule), options=options, progress=told)
    tune_networks([differences()], host_target(1), job)
    assert any(line.startswith("looking at how far the errors") for line in told.lines)


def test_the_next_fastest_is_checked_where_a_variant_is_too_inaccurate() -> None:
    """And the cost model is not told that the kernel of that one was slow."""
    written = task()
    options = TuneOptions(search=SearchOptions(population=256, generations=1, sketch_rows=64))
    learner = Learner(None)
    run = TaskRun(written, learner, options, np.random.default_rng(0))
    space = space_of(written, options.search.space)
    first = {
        sketch.variant: Candidate(sketch, rows.row(0))
        for sketch, rows in zip(space.sketches, space.samples, strict=True)
    }
    batch = [first["winograd-6"], first["direct"]]
    results = [Timing((0.4,), error=1e-6, variant_errors=(1e-3, 1e-3)), Timing((0.8,))]
    runner = FakeRunner()
    checked = verify_new_best(run, runner, batch, results, 1e-4)
    held = run.held(batch, checked)
    run.tell(batch, held)
    assert run.best_s == 0.8 and runner.verified == 1
    assert isinstance(held[1], Timing) and held[1].error == 0.0
    assert learner.dataset.table().seconds.tolist() == [0.8]
