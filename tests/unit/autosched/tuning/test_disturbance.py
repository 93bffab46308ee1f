"""A machine that becomes slow while it measures changes no choice by more than a few percent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import autosched as asd
from autosched.measure.protocol import MeasuredTask
from autosched.measure.result import WRONG_RESULT, Failure, MeasureResult, Timing, scaled
from autosched.measure.simulated import SimulatedRunner
from autosched.search.learner import Learner
from autosched.search.options import SearchOptions
from autosched.tasks.candidate import Candidate
from autosched.tuning.disturbance import Disturbances, challengers, confirmed
from autosched.tuning.options import TuneOptions
from autosched.tuning.result import TuneResult
from autosched.tuning.task_progress import Turn
from autosched.tuning.task_run import TaskRun

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


def known_of(doubt: float = 1.05, slowdown: float = 1.1) -> Disturbances:
    return Disturbances(TuneOptions(doubt=doubt, slowdown=slowdown))


def medians(results: Sequence[MeasureResult]) -> list[float]:
    return [result.median for result in results if isinstance(result, Timing)]


def test_a_batch_that_is_slower_for_itself_stays_as_it_is() -> None:
    known = known_of()
    results = [Timing((1.2,)), FAILED]
    assert known.suspicious(results, 1.0)
    assert known.corrected(results, Timing((1.04,)), 1.0) == results
    assert known.corrected(results, FAILED, 1.0) == results
    assert str(known) == ""
    assert not known.suspicious([Timing((1.04,))], 1.0) and not known.suspicious([FAILED], 1.0)
    assert not known.suspicious([Timing((9.0,))], float("inf"))


def test_nothing_becomes_the_best_by_a_correction() -> None:
    known = known_of()
    raw = [Timing((1.2, 1.4, 1.6)), Timing((4.0,)), FAILED, Timing((1.5,)), Timing((1.6,))]
    corrected = known.corrected(raw, Timing((2.0,)), 1.0)
    assert medians(corrected) == [0.7, 2.0, 0.75, 0.8]
    assert list(known.slowdowns.values()) == [2.0] and challengers(corrected, 1.0, 2) == [0, 3]
    assert known.level == 2.0 and known.suspicious(raw, 1.0) and known.level == 2.0
    assert not known.suspicious(raw, 1.4) and known.level == 1.0
    best, faster, slower = Timing((2.0,) * 5), Timing((1.8,) * 5), Timing((2.2,) * 5)
    found = medians(confirmed(raw, corrected, 1.0, {0: slower, 3: faster}, best))
    assert found == pytest.approx([1.1, 2.0, 1.0, 1.1]) and found[2] < 1.0
    uneven = Timing((1.8, 1.8, 1.8, 1.8, 2.2))
    lost = medians(confirmed(raw, corrected, 1.0, {0: FAILED, 3: uneven}, best))
    assert lost == pytest.approx([1.4, 2.0, 1.0, 1.0]) and 1.0 < lost[2] < lost[3]
    failed = confirmed(raw, corrected, 1.0, {0: slower, 3: faster}, FAILED)
    assert medians(failed) == [1.4, 2.0, 1.5, 1.6]
    wrong = Failure("verify", WRONG_RESULT, "")
    assert confirmed(raw, corrected, 1.0, {0: wrong}, best)[0] is wrong


def test_winners_and_those_that_nobody_timed_keep_their_order() -> None:
    """The fastest in turns is first; what was not timed comes behind, fastest first."""
    raw = [Timing((1.8 * seconds,)) for seconds in (0.9, 0.7, 0.8, 0.97, 0.93)]
    corrected = [scaled(result, 1 / 1.8) for result in raw]
    seconds = {0: 1.62, 1: 1.26, 2: 1.44}
    in_turns = {n: Timing((s,) * 5, error=2e-7) for n, s in seconds.items()}
    found = confirmed(raw, corrected, 1.0, in_turns, Timing((1.8,) * 5))
    assert np.argsort(medians(found)).tolist() == [1, 2, 0, 4, 3]
    assert medians(found) == pytest.approx([1.0] * 5) and max(medians(found[:3])) < 1.0
    assert isinstance(found[0], Timing) and found[0].error == 2e-7


def test_lucky_rounds_do_not_add_up() -> None:
    """Each winner takes the place of the last one, and no winner less time than the first best."""
    best_s, best = 1.0, Timing((2.0,) * 5)
    for _ in range(100):
        (best_s,) = medians(
            confirmed([best], [Timing((0.5,))], best_s, {0: Timing((1.6,) * 5)}, best)
        )
    assert 1.0 - 1e-6 < best_s < 1.0


def test_leaders_are_those_that_were_measured_and_those_that_are_believed() -> None:
    run = TaskRun(task(), Learner(None), OPTIONS, np.random.default_rng(0))
    candidates = run.ask(Turn(0, 6))
    quiet = [Timing((seconds,)) for seconds in (4.0, 3.0, 5.0)]
    run.tell(candidates[:3], quiet)
    slow = [Timing((seconds,)) for seconds in (6.0, 7.0, 8.0)]
    run.tell(candidates[3:], [scaled(result, 1 / 2.5) for result in slow], slow)
    assert run.anchor == (3.0, candidates[1]) and run.best_s == pytest.approx(2.4)
    expected = [candidates[n] for n in (1, 3, 0, 4)]
    assert [c.key for c in run.leaders(4)] == [c.key for c in expected]
    assert [c.key for c in run.leaders(1)] == [candidates[1].key]
    run.restrict(0.0)
    assert run.anchor == (3.0, candidates[1]) and run.best_s == pytest.approx(2.4)


class QuickerNow(SimulatedRunner):
    """A machine on which all takes ``seconds`` when it is timed again."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        return [Timing((self._seconds,) * rounds) for _ in candidates]


@pytest.mark.parametrize(("again", "times"), [(2.0, 2.0), (4.0, 1.0), (3.9, 1.0)])
def test_what_was_best_is_timed_again_before_it_is_left_far_behind(
    again: float, times: float
) -> None:
    """On a machine that was slower before, and on one that was not."""
    learner = Learner(None)
    run, known = TaskRun(task(), learner, OPTIONS, np.random.default_rng(0)), known_of()
    candidates = run.ask(Turn(0, 3))
    run.tell(candidates[:2], [Timing((4.0,)), Timing((5.0,))])
    quicker = known.quicker(run, QuickerNow(again), [Timing((2.5,))])
    assert quicker == times
    timed, results = known.take()
    assert [c.key for c in timed] == [candidates[0].key] * (times > 1)
    assert medians(results) == [again] * (times > 1) and known.take() == ([], [])
    run.scale(1.0 / quicker)
    assert run.best_s == 4.0 / times and run.anchor == (4.0 / times, candidates[0])
    assert run.measured.leaders(2)[1] == (5.0 / times, candidates[1])
    assert learner.dataset.table().seconds.tolist() == [4.0 / times, 5.0 / times]
    run.restrict(0.0)
    assert run.best_s == 4.0 / times and run.anchor[0] == 4.0 / times


class KnownMachine(SimulatedRunner):
    """One on which candidates take what is said, times ``factor``."""

    def __init__(self, seconds: Mapping[str, float], factor: float) -> None:
        super().__init__()
        self.seconds, self.factor = seconds, factor
        self.rounds: list[int] = []
        self.wrong: set[str] = set()

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        self.rounds.append(rounds)
        return [
            Failure("verify", WRONG_RESULT, "")
            if candidate.key in self.wrong
            else Timing((self.factor * self.seconds[candidate.key],) * rounds, error=1e-7)
            for candidate in candidates
        ]


def test_a_winner_that_was_believed_slower_says_nothing_of_the_machine() -> None:
    """It won while the machine was busy; quiet again, it is far ahead of what it is believed."""
    run, known = TaskRun(task(), Learner(None), OPTIONS, np.random.default_rng(0)), known_of()
    first, won, new = run.ask(Turn(0, 3))
    machine = KnownMachine({first.key: 1.0, won.key: 0.7, new.key: 0.75}, 1.8)
    run.tell([first], [Timing((1.0,))])
    raw = [Timing((1.8 * 0.7,))]
    run.tell([won], known.undisturbed(run, machine, [won], raw), raw)
    assert run.best_s == pytest.approx(1.0) and known.take()[0] == [won]
    machine.factor = 1.0
    assert known.quicker(run, machine, [Timing((0.75,))]) == 1.0
    assert run.best_s == 0.7 and run.anchor == (0.7, run.measured.leaders(1)[0][1])
    (again,), (result,) = known.take()
    assert again.key == won.key and medians([result]) == [0.7]


def test_a_quiet_anchor_is_timed_once() -> None:
    run, known = TaskRun(task(), Learner(None), OPTIONS, np.random.default_rng(0)), known_of()
    first, other = run.ask(Turn(0, 2))
    machine = KnownMachine({first.key: 1.0, other.key: 1.3}, 1.0)
    run.tell([first], [Timing((1.0,))])
    known.undisturbed(run, machine, [other], [Timing((1.3,))])
    assert machine.rounds == [1] and not known.slowdowns
    machine.factor = 1.5
    known.undisturbed(run, machine, [other], [Timing((1.95,))])
    assert machine.rounds == [1, 1, 3] and list(known.slowdowns.values()) == [1.5]


def test_a_slow_pace_is_told_and_corrects_nothing_more() -> None:
    run, known = TaskRun(task(), Learner(None), OPTIONS, np.random.default_rng(0)), known_of()
    first, other = run.ask(Turn(0, 2))
    machine = KnownMachine({first.key: 1.0, other.key: 1.3}, 1.0)
    run.tell([first], [Timing((1.0,))])
    results = [Timing((1.3,), pace=pace) for pace in (1.2, 1.5, 1.25)] + [FAILED]
    found = known.undisturbed(run, machine, [other] * 4, results)
    assert found == results and list(known.slowdowns.values()) == [1.25]
    known.undisturbed(run, machine, [other], [Timing((1.3,), pace=1.05)])
    assert "in 1 of 2 batches it was up to 1.2 times slower" in str(known)
    waited = [Timing((1.3,), pace=1.05, waiting=waiting) for waiting in (1.0, 1.9, 1.6)]
    assert known.undisturbed(run, machine, [other] * 3, waited) == waited
    assert "in 2 of 3 batches it was up to 1.6 times slower" in str(known)


def test_what_is_wrong_in_turns_is_noted_as_wrong() -> None:
    run, known = TaskRun(task(), Learner(None), OPTIONS, np.random.default_rng(0)), known_of()
    first, other = run.ask(Turn(0, 2))
    machine = KnownMachine({first.key: 1.0, other.key: 0.7}, 1.8)
    machine.wrong.add(other.key)
    run.tell([first], [Timing((1.0,))])
    raw = [Timing((1.8 * 0.7,))]
    told = known.undisturbed(run, machine, [other], raw)
    run.tell([other], told, raw)
    assert known.take() == ([other], told) and isinstance(told[0], Failure)
    assert run.leaders(4) == [first] and run.anchor == (1.0, first)


class UnevenMachine(BusyMachine):
    """Busy, it slows each call and each round in turns down by another amount."""

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        found = super().remeasure(task, candidates, rounds)
        if self._trials not in self._busy:
            return found
        slowed = [s for r in found if isinstance(r, Timing) for s in r.seconds]
        noisy = slowed * np.exp(self._random.normal(0.3, 0.3, len(slowed)))
        return [Timing(tuple(times)) for times in noisy.reshape(len(found), rounds)]

    def _factor(self) -> float:
        even = super()._factor()
        return even * float(np.exp(self._random.normal(0.0, 0.1))) if even > 1.5 else even


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_what_was_fastest_is_not_lost_in_a_long_disturbance(seed: int) -> None:
    options = replace(OPTIONS, trials=600, seed=seed)
    runner = UnevenMachine(seed, range(100, 10**9))
    result = task().tune(options=options, runner=runner, quiet=True)
    measured = [r for r in result.records if r.phase == "trial" and isinstance(r.result, Timing)]
    fastest = min(measured, key=lambda record: record.result.median)  # type: ignore[union-attr]
    candidate = fastest.candidate(task().variant(fastest.variant).dag, task().target)
    best = result.tasks[0].best
    assert best is not None
    finals = {r.candidate_key for r in result.records if r.phase == "final"}
    assert fastest.candidate_key in finals, "it takes part in the last comparison"
    assert runner.true_s(task(), best) <= 1.03 * runner.true_s(task(), candidate)


def test_a_correction_alone_makes_no_best_without_leaders() -> None:
    options = replace(OPTIONS, leaders=0, contenders=0)
    run = TaskRun(task(), Learner(None), options, np.random.default_rng(0))
    first, other = run.ask(Turn(0, 2))
    machine = KnownMachine({first.key: 1.0, other.key: 1.2}, 1.8)
    run.tell([first], [Timing((1.0,))])
    (told,) = Disturbances(options).undisturbed(run, machine, [other], [Timing((1.7,))])
    assert isinstance(told, Timing) and told.median > 1.0
