"""Policies and models on simulated and on recorded measurements, reproducible to the last trial."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.cli.app import make_parser
from autosched.cli.tune import tune_options
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.simulated import SimulatedRunner
from autosched.records.corpus import Corpus
from autosched.records.record import Record
from autosched.report.callbacks import Callback
from autosched.search.measured import Measured
from autosched.search.options import POLICIES, SearchOptions
from autosched.search.random_search import RandomPolicy
from autosched.search.restricted import CandidatePool, RestrictedPolicy
from autosched.search.scorer import Scorer
from autosched.search.space import Space
from autosched.study import recorded_dataset, replay_study
from autosched.system.errors import OptionError
from autosched.system.stopwatch import Stopwatch
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.result import TuneResult
from autosched.tuning.run import run_job
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from costmodel.model import CostModel
from tests.support.targets import SMALL
from tests.support.workloads import conv2d_relu, matmul_dag

ROOT = Path(__file__).parents[4]
SEARCH = SearchOptions(population=256, generations=2, sketch_rows=64)


@functools.cache
def some_tasks() -> tuple[Task, ...]:
    return Task(conv2d_relu(), SMALL, "conv", weight=2), Task(matmul_dag(), SMALL, "matmul")


def options(policy: str, trials: int, seed: int = 1) -> TuneOptions:
    search = replace(SEARCH, policy=policy)  # type: ignore[arg-type]
    return TuneOptions(trials=trials, seed=seed, search=search)


def small_model() -> GradientBoostedModel:
    return GradientBoostedModel(GbdtOptions(trees=10))


@functools.cache
def recorded() -> tuple[Record, ...]:
    """A table of random candidates."""
    runner = SimulatedRunner(seed=5)
    found = run_job(
        TuneJob(some_tasks(), runner=runner, options=options("random", 96), now=lambda: 0.0)
    )
    return tuple(record for record in found.records if record.phase == "trial")


def tune(
    chosen: TuneOptions, callbacks: Sequence[Callback] = (), cost_model: CostModel | None = None
) -> TuneResult:
    return run_job(
        TuneJob(
            some_tasks(), runner=SimulatedRunner(), options=chosen, callbacks=callbacks,
            cost_model=cost_model,
        )
    )  # fmt: skip


def simulate(policy: str, seed: int = 1) -> TuneResult:
    chosen = options(policy, 32, seed)
    return tune(chosen, cost_model=small_model())


def replay(policy: str, seed: int = 1, trials: int = 32) -> TuneResult:
    return replay_study(
        some_tasks(), recorded(), options(policy, trials, seed), cost_model=small_model()
    )


def digest(results: Sequence[TuneResult]) -> str:
    """Of every (task, variant, steps, values) in order."""
    lines = [f"{r.task} {r.candidate_key} {r.phase}" for item in results for r in item.records]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def everything() -> str:
    return digest([run(policy) for policy in POLICIES for run in (simulate, replay)])


@pytest.mark.slow
def test_a_fresh_process_gives_the_same_sequences() -> None:
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.unit.autosched.test_study import everything\n"
        "print(everything())"
    )
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": other, "PATH": ""},
    )  # fmt: skip
    assert found.stdout.strip() == everything()


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_spends_its_budget(policy: str) -> None:
    found = simulate(policy)
    assert found.trials == 32 and found.stopped == "trials"
    assert all(item.best is not None for item in found.tasks)


@pytest.mark.parametrize("policy", ["evolutionary", "genetic", "random"])
def test_other_seeds_give_other_sequences(policy: str) -> None:
    assert digest([simulate(policy, 1)]) != digest([simulate(policy, 2)])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_replay_measures_what_was_recorded_and_nothing_twice(policy: str) -> None:
    table = {(r.task, r.candidate_key): r.result for r in recorded()}
    found = [record for record in replay(policy).records if record.phase == "trial"]
    keys = [(record.task, record.candidate_key) for record in found]
    assert len(keys) == len(set(keys)) == 32
    for key, record in zip(keys, found, strict=True):
        assert record.result.median == table[key].median


def test_a_replay_ends_with_its_table() -> None:
    found = replay("evolutionary", trials=1000)
    assert found.trials == len(recorded()) == 96
    assert found.stopped == "nothing left to improve"
    best = min(r.result.median for r in recorded() if r.task == found.tasks[0].task.key)
    assert found.tasks[0].seconds == best


class Proposes:
    """A policy that asks for given candidates, one after another."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.left, self.told = list(candidates), 0

    def ask(self, count: int) -> list[Candidate]:
        batch, self.left = self.left[:count], self.left[count:]
        return batch

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        self.told += len(candidates)


def test_proposals_become_the_nearest_candidates_left() -> None:
    task = some_tasks()[0]
    pool = RandomPolicy(task.space, np.random.default_rng(4)).ask(9)
    name = next(iter(pool[3].values))
    near = Candidate(pool[3].sketch, {**pool[3].values, name: pool[3].values[name] + 1})
    inner = Proposes([pool[1], near])
    policy = RestrictedPolicy(inner, CandidatePool(pool))
    assert [c.key for c in policy.ask(2)] == [pool[1].key, pool[3].key]
    policy.tell(pool[4:6], [Failure("run", "SIGSEGV", "crash")] * 2)
    assert inner.told == 2
    rest = policy.ask(9)
    assert {c.key for c in rest} == {pool[n].key for n in (0, 2, 6, 7, 8)} and len(rest) == 5
    assert policy.ask(2) == []


def test_a_policy_of_the_user() -> None:
    made: list[SearchOptions | Scorer] = []

    def factory(
        space: Space, scorer: Scorer, rng: np.random.Generator, measured: Measured
    ) -> RandomPolicy:
        made.append(scorer)
        return RandomPolicy(space, rng, measured)

    chosen = TuneOptions(trials=24, finish_share=0.0, search=SearchOptions(policy=factory))
    found = tune(chosen, cost_model=small_model())
    assert len(made) == 2 and found.trials == 24


def test_the_policy_on_the_command_line() -> None:
    for name in POLICIES:
        args = make_parser().parse_args(["tune", "resnet-18", "--policy", name])
        assert tune_options(args)[0].search.policy == name
    args = make_parser().parse_args(["tune", "resnet-18", "--preset", "quick"])
    assert tune_options(args)[0].search.policy == "evolutionary"
    assert tune_options(args)[0].task_early_stop_trials == 96


class Recorder(Callback):
    def __init__(self) -> None:
        self.batches: list[tuple[str, int]] = []
        self.bests: list[tuple[str, float]] = []
        self.finished: list[tuple[str, str]] = []

    def on_batch(
        self, task: Task, candidates: Sequence[Candidate], results: Sequence[MeasureResult]
    ) -> None:
        assert len(candidates) == len(results)
        self.batches.append((task.name, len(results)))

    def on_new_best(self, task: Task, candidate: Candidate, seconds: float) -> None:
        (result,) = SimulatedRunner().measure(task, [candidate])
        assert result.median == seconds
        self.bests.append((task.name, seconds))

    def on_task_finished(self, task: Task, reason: str) -> None:
        self.finished.append((task.name, reason))


def test_callbacks_hear_of_batches_bests_and_ends() -> None:
    recorder = Recorder()
    chosen = replace(options("evolutionary", 64), leaders=0)
    found = tune(chosen, [recorder], small_model())
    assert sum(count for _, count in recorder.batches) == 64
    for item in found.tasks:
        mine = [seconds for name, seconds in recorder.bests if name == item.task.name]
        assert mine == sorted(mine, reverse=True) and mine[-1] == item.seconds
    assert sorted(recorder.finished) == [("conv", "trials"), ("matmul", "trials")]


def test_a_task_without_improvement_is_finished_before_the_others() -> None:
    recorder = Recorder()
    chosen = replace(options("random", 400), task_early_stop_trials=12, leaders=0)
    tune(chosen, [recorder])
    assert {reason for _, reason in recorder.finished} == {"no improvement"}
    assert sorted(name for name, _ in recorder.finished) == ["conv", "matmul"]
    assert sum(count for _, count in recorder.batches) < 400


def test_an_error_of_a_callback_reaches_the_caller() -> None:
    class Broken(Callback):
        def on_new_best(self, task: Task, candidate: Candidate, seconds: float) -> None:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        tune(options("random", 9), [Broken()])


def test_the_time_of_searching_is_a_part_of_the_run() -> None:
    found = simulate("evolutionary")
    assert 0.0 < found.search_s < found.seconds


def test_nested_blocks_of_a_stopwatch_count_once() -> None:
    watch = Stopwatch()
    with watch, watch:
        pass
    first = watch.seconds
    assert first > 0.0
    with watch:
        assert watch.seconds == first
    assert watch.seconds > first


@pytest.mark.parametrize("given", ["log.jsonl", Path("log.jsonl"), Corpus(), [3]])
def test_what_are_no_records_is_refused(given: Any) -> None:
    with pytest.raises(OptionError, match=r"records is .*RecordLog\(path\)\.read\(\)\.records"):
        replay_study(some_tasks(), given, options("random", 4))
    with pytest.raises(OptionError, match="records is"):
        recorded_dataset(some_tasks(), given)
