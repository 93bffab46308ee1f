"""A machine that becomes slow while it measures changes no choice by more than a few percent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import autosched as asd
from autosched.measure.protocol import MeasuredTask
from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.search.options import SearchOptions
from autosched.tasks.candidate import Candidate
from autosched.tuning.disturbance import Disturbances, challengers, confirmed
from autosched.tuning.options import TuneOptions
from autosched.tuning.result import TuneResult

FAILED = Failure("run", "SIGSEGV", "")
OPTIONS = TuneOptions(
    trials=96, search=SearchOptions(population=256, generations=1, sketch_rows=64)
)


class BusyMachine(SimulatedRunner):
    """The simulated machine; while trials ``busy`` are made it is slower, unevenly."""

    def __init__(self, seed: int, busy: range) -> None:
        super().__init__(seed, noise=0.0)
        self._busy, self._trials = busy, 0
        self._random = np.random.default_rng(seed)

    def true_s(self, task: MeasuredTask, candidate: Candidate) -> float:
        """Seconds when nothing disturbs."""
        (result,) = super().answer(task, [candidate])
        assert isinstance(result, Timing)
        return result.median

    def answer(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> list[MeasureResult]:
        return [self._slowed(result) for result in super().answer(task, candidates)]

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        quiet = super().answer(task, candidates)
        seconds = [[self._factor() * r.median for r in quiet] for _ in range(rounds)]  # type: ignore[union-attr]
        return [Timing(tuple(column)) for column in zip(*seconds, strict=True)]

    def _slowed(self, result: MeasureResult) -> MeasureResult:
        self._trials += 1
        assert isinstance(result, Timing)
        return Timing((self._factor() * result.median,))

    def _factor(self) -> float:
        noise = self._random.normal(0.0, 0.01)
        return float(np.exp(noise)) * (1.8 if self._trials in self._busy else 1.0)


@cache
def task() -> asd.Task:
    """One for all runs: its space is drawn once."""
    target = asd.Target("cpu-avx2", threads=1)
    return asd.workloads.get("GMM").task(1, 32, 32, 32, target=target)


@cache
def tuned(seed: int, busy: range, options: TuneOptions = OPTIONS) -> tuple[TuneResult, float]:
    """The result of a run, and the true seconds of what it chose."""
    runner = BusyMachine(seed, busy)
    result = task().tune(options=replace(options, seed=seed), runner=runner, quiet=True)
    best = result.tasks[0].best
    assert best is not None
    return result, runner.true_s(task(), best)


@pytest.mark.parametrize(
    "busy", [range(30, 1000), pytest.param(range(30, 70), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(4), marks=pytest.mark.slow)])
def test_the_choice_is_that_of_a_quiet_run(busy: range, seeds: range) -> None:
    """In the mean: two searches of one seed part ways where one of them re-measures."""
    ratios = []
    for seed in seeds:
        quiet, quiet_s = tuned(seed, range(0))
        slowed, slowed_s = tuned(seed, busy)
        ratios.append(slowed_s / quiet_s)
        assert not quiet.warnings
        (told,) = slowed.warnings
        assert told.startswith("the machine was disturbed: in ") and "times slower" in told
    assert np.exp(np.mean(np.log(ratios))) < 1.03 and max(ratios) < 1.1


def test_a_batch_that_is_slower_for_itself_stays_as_it_is() -> None:
    known = Disturbances(1.05, 1.1)
    results = [Timing((1.2,)), FAILED]
    assert known.suspicious(results, 1.0)
    assert known.corrected(results, Timing((1.04,)), 1.0) == results
    assert known.corrected(results, FAILED, 1.0) == results
    assert str(known) == ""
    assert not known.suspicious([Timing((1.04,))], 1.0) and not known.suspicious([FAILED], 1.0)
    assert not known.suspicious([Timing((9.0,))], float("inf"))


def test_nothing_becomes_the_best_by_a_correction() -> None:
    known = Disturbances(1.05, 1.1)
    raw = [Timing((1.2, 1.4, 1.6)), Timing((4.0,)), FAILED, Timing((1.5,)), Timing((1.6,))]
    corrected = known.corrected(raw, Timing((2.0,)), 1.0)
    assert [r.median for r in corrected if isinstance(r, Timing)] == [0.7, 2.0, 0.75, 0.8]
    assert known.slowdowns == [2.0] and challengers(corrected, 1.0, 2) == [0, 3]
    best, faster, slower = Timing((2.0,) * 5), Timing((1.8,) * 5), Timing((2.2,) * 5)
    found = confirmed(raw, corrected, 1.0, {0: slower, 3: faster}, best)
    assert [r.median for r in found if isinstance(r, Timing)] == pytest.approx([1.1, 2.0, 0.9, 1.6])
    lost = confirmed(raw, corrected, 1.0, {0: FAILED, 3: replace(faster, seconds=(1.8,))}, best)
    assert [r.median for r in lost if isinstance(r, Timing)] == pytest.approx([1.4, 2.0, 1.0, 1.6])
