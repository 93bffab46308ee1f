"""Collecting: what is measured, what survives a kill, and what is not measured again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from autosched.collect.hopeful import HopefulScorer
from autosched.collect.random_dags import random_dag
from autosched.collect.run import CollectOptions, Collector, CollectProgress
from autosched.collect.sources import Sourced, sourced_tasks
from autosched.measure.protocol import MeasuredTask
from autosched.measure.result import MeasureResult
from autosched.measure.simulated import SimulatedRunner
from autosched.records.corpus import Corpus, Origin
from autosched.records.errors import RecordError
from autosched.search.sampling import sample_feasible
from autosched.search.space import space_of
from autosched.tasks.candidate import Candidate
from autosched.tasks.spec import TaskSpec
from costmodel.extract import features_of
from costmodel.model import DraftModel, RandomModel
from tests.support.targets import SMALL
from tests.support.workloads import conv2d_relu, matmul_dag


@cache
def tasks() -> list[Sourced]:
    dags = {"conv": conv2d_relu(), "matmul": matmul_dag()}
    return [Sourced(TaskSpec(d, SMALL, n), (Origin(n),)) for n, d in dags.items()]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Killed(SimulatedRunner):
    """A runner in whose fourth batch the process ends."""

    def __init__(self, clock: Clock, batches: int) -> None:
        super().__init__()
        self._clock, self._left = clock, batches

    def answer(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> list[MeasureResult]:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        self._clock.now += 40.0
        return super().answer(task, candidates)


def collector(path: Path, programs: int = 24) -> Collector:
    return Collector(path, SimulatedRunner(), SMALL, CollectOptions(1e6, programs))


def test_half_is_drawn_at_random_and_half_is_searched(tmp_path: Path) -> None:
    path, told = tmp_path / "corpus.npz", list[CollectProgress]()
    run = collector(path)
    run.show = told.append
    corpus = run.collect(tasks())
    assert len(corpus) == 48 and len(corpus.measured_tasks) == 2
    assert sum(program.searched for program in corpus.programs) == 24
    assert len(Corpus.load(path)) == 48
    assert [view.programs for view in told] == [12, 24, 36, 48]
    assert told[-1].task == "matmul" and told[-1].tasks == 2
    searched, random = (
        np.mean([np.log(p.median_s) for p in corpus.programs if p.searched is which])
        for which in (True, False)
    )
    assert searched < random


def test_a_run_goes_on_where_another_stopped(tmp_path: Path) -> None:
    path = tmp_path / "corpus.npz"
    collector(path).collect(tasks())
    assert len(collector(path).collect(tasks())) == 48  # nothing is left to do
    corpus = collector(path, 40).collect(tasks())
    assert len(corpus) == 80
    keys = [record.candidate_key for record in corpus.records()]
    assert len(set(keys)) == 80


def test_what_was_measured_before_an_end_is_there(tmp_path: Path) -> None:
    path, clock = tmp_path / "corpus.npz", Clock()
    options = CollectOptions(1e6, 24)
    run = Collector(path, Killed(clock, 2), SMALL, options, clock=clock)
    seen: list[int] = []
    run.show = lambda _: seen.append(len(Corpus.load(path)))
    with pytest.raises(KeyboardInterrupt):
        run.collect(tasks())
    assert seen == [12, 24]  # each batch took longer than a corpus may be unsaved
    assert len(Corpus.load(path)) == 24
    assert len(collector(path).collect(tasks())) == 48


def test_a_corpus_that_cannot_be_written_is_said_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    path = tmp_path / "missing" / "corpus.npz"
    run = Collector(path, Killed(Clock(), 0), SMALL, CollectOptions(1e6, 24))
    with pytest.raises(RecordError, match="the corpus cannot be written"):
        run.collect(tasks())


def test_time_ends_a_run(tmp_path: Path) -> None:
    clock = Clock()
    options = CollectOptions(100.0, 24)
    run = Collector(tmp_path / "corpus.npz", Killed(clock, 99), SMALL, options, clock=clock)
    assert len(run.collect(tasks())) == 36  # three batches of 40 seconds


def test_sources_mix_networks_workloads_and_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.collect.sources.NAMES", ("mlp",))
    found = list(islice(sourced_tasks(SMALL, seed=1), 8))
    kinds = ["net" if s.origins[0].network else s.origins[0].text.split()[0] for s in found]
    assert kinds[0::4] == ["net", "net"] and kinds[1::4] == ["random", "random"]
    assert all("(" in kind for kind in kinds[3::4])
    again = list(islice(sourced_tasks(SMALL, seed=1), 3))
    assert [s.task.key for s in again] == [s.task.key for s in found[:3]]
    only = list(sourced_tasks(SMALL, 0, ["mlp"]))
    assert {s.origins[0].network for s in only} == {"mlp"} and len(only) == 3


def test_random_programs_are_equal_for_equal_seeds_and_can_be_scheduled() -> None:
    dags = [random_dag(seed) for seed in range(12)]
    assert [random_dag(seed).key for seed in range(3)] == [dag.key for dag in dags[:3]]
    assert len({dag.key for dag in dags}) == 12
    for dag in dags[:4]:
        assert space_of(TaskSpec(dag, SMALL)).sketches


def test_the_more_hopeful_judge_decides() -> None:
    sketch = space_of(tasks()[0].task).sketches[0]
    rows = sample_feasible(sketch, 64, np.random.default_rng(0))
    draft = HopefulScorer(DraftModel()).score(rows)
    model = RandomModel(np.random.default_rng(1))
    other = RandomModel(np.random.default_rng(1))
    hopeful = HopefulScorer(model).score(rows)
    alone = other.predict(features_of(rows))
    assert (hopeful <= alone * (1 + 1e-12)).all() and (hopeful < 0.9 * alone).any()
    gain = np.log(alone / hopeful)
    better = np.log(alone / draft)
    assert np.corrcoef(gain[gain > 1e-6], better[gain > 1e-6])[0, 1] > 0.99


def test_two_collectors_keep_the_programs_of_each_other(tmp_path: Path) -> None:
    """Both had read the file before one of them wrote."""
    path, options = tmp_path / "corpus.npz", CollectOptions(3600, programs=8)
    collectors = [Collector(path, SimulatedRunner(), SMALL, options) for _ in range(2)]
    for collector, sourced in zip(collectors, tasks(), strict=True):
        collector.collect([sourced])
    found = Corpus.load(path)
    assert len(found.measured_tasks) == 2
    assert len(found) == sum(collector._measured for collector in collectors)


def test_a_calibrated_machine_is_the_same_machine(tmp_path: Path) -> None:
    path, options = tmp_path / "corpus.npz", CollectOptions(3600, programs=8)
    first = Collector(path, SimulatedRunner(), SMALL, options).collect(tasks())
    rates = replace(SMALL.rates, hertz=1.5 * SMALL.rates.hertz)
    calibrated = replace(SMALL, rates=rates)
    again = Collector(path, SimulatedRunner(), calibrated, options).collect(tasks())
    assert len(again) == len(first) > 0
