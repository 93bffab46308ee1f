"""The last comparison of the fastest candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

import autosched as asd
from autosched.measure.protocol import MeasuredTask
from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.records.record import record_of
from autosched.search.learner import Learner
from autosched.search.options import SearchOptions
from autosched.search.recall import best_of
from autosched.system.errors import OptionError
from autosched.tasks.candidate import Candidate
from autosched.tuning.options import TuneOptions
from autosched.tuning.retiming import by_belief, comparisons
from autosched.tuning.task_progress import Turn
from autosched.tuning.task_run import TaskRun

OPTIONS = TuneOptions(
    trials=96, search=SearchOptions(population=256, generations=1, sketch_rows=64)
)


class Bursts(SimulatedRunner):
    """Candidates take ``seconds``, with noise in each run; a second passes for a thousand runs."""

    def __init__(self, seconds: Sequence[float], noise: float, seed: int) -> None:
        super().__init__()
        self.seconds, self.keys = list(seconds), list[str]()
        self.now_s, self.rounds = 0.0, list[tuple[int, int]]()
        self._noise, self._random = noise, np.random.default_rng(seed)

    def burst(self, number: int) -> Timing:
        return Timing((self.seconds[number] * float(np.exp(self._random.normal(0, 0.05))),))

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        self.rounds.append((len(candidates), rounds))
        self.now_s += len(candidates) * rounds / 1000
        true = [self.seconds[self.keys.index(candidate.key)] for candidate in candidates]
        noise = np.exp(self._random.normal(0, self._noise, (len(true), rounds)))
        return [Timing(tuple((s * row).tolist())) for s, row in zip(true, noise, strict=True)]


class Machine:
    """A task with candidates of known times, each measured once."""

    def __init__(self, noise: float, seed: int, options: TuneOptions = OPTIONS) -> None:
        target = asd.Target("cpu-avx2", threads=1)
        task = asd.workloads.get("GMM").task(1, 32, 32, 32, target=target)
        self.run = TaskRun(task, Learner(None), options, np.random.default_rng(seed))
        candidates = self.run.ask(Turn(0, 64))
        true = 1e-4 * (1.0 + 0.6 * np.sqrt(np.arange(1, len(candidates) + 1) / len(candidates)))
        self.runner, self.options = Bursts(true.tolist(), noise, seed), options
        self.runner.keys = [candidate.key for candidate in candidates]
        self.run.tell(candidates, [self.runner.burst(n) for n in range(len(candidates))])

    def compared(self, limit_s: float) -> Iterator[tuple[list[Candidate], list[MeasureResult]]]:
        found = comparisons(
            [self.run], self.runner, self.options, lambda: self.runner.now_s, limit_s
        )
        for _, candidates, results in found:
            yield candidates, results

    def chosen(self, limit_s: float) -> float:
        """Seconds that the winner really takes, over those of the fastest."""
        for candidates, results in self.compared(limit_s):
            self.run.retime(results)
            names = [candidate.key for candidate in candidates]
            last = dict(zip(map(id, results), names, strict=True))
        key = last[id(self.run.retimed)]
        return self.runner.seconds[self.runner.keys.index(key)] / min(self.runner.seconds)


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_more_rounds_of_more_candidates_choose_a_faster_one(noise: float) -> None:
    """Than a few rounds of those whose bursts were the luckiest."""
    short = [Machine(noise, seed).chosen(0.03) for seed in range(12)]
    long = [Machine(noise, seed).chosen(10.0) for seed in range(12)]
    assert np.mean(long) < np.mean(short) and np.mean(long) < 1.02


def test_the_long_comparison_takes_the_time_that_there_is() -> None:
    machine = Machine(0.01, 0)
    assert [len(candidates) for candidates, _ in machine.compared(10.0)] == [4, 12]
    short, first, (left, more) = machine.runner.rounds
    assert (short, first) == ((4, 5), (12, 5)) and left < 12 and more == 11
    machine.runner.rounds.clear()
    list(machine.compared(machine.runner.now_s + 0.1))
    assert machine.runner.rounds[1] == (12, 5) and 0 < machine.runner.rounds[2][1] < 11
    machine.runner.rounds.clear()
    list(machine.compared(machine.runner.now_s + 0.04))
    assert machine.runner.rounds == [(4, 5)], "there is no time for more"
    machine.runner.rounds.clear()
    list(machine.compared(machine.runner.now_s + 0.063))
    assert machine.runner.rounds == [(4, 5), (8, 5)], "there is time for a few more"
    machine.runner.rounds.clear()
    assert list(machine.compared(machine.runner.now_s)) == [] and not machine.runner.rounds


@pytest.mark.parametrize(("noise", "least", "most"), [(1e-4, 0, 1), (0.01, 2, 8), (1.0, 12, 12)])
def test_what_has_no_hope_left_is_compared_no_further(noise: float, least: int, most: int) -> None:
    machine = Machine(noise, 0)
    *_, (candidates, results) = machine.compared(10.0)
    further = machine.runner.rounds[2:]
    assert sum(count for count, _ in further) in range(least, most + 1)
    assert len(candidates) == len(results) == 12, "all of them are told"
    rounds = [len(result.seconds) for result in results if isinstance(result, Timing)]
    assert rounds == sorted(rounds, reverse=True) and rounds.count(16) == sum(n for n, _ in further)


def test_a_long_run_compares_for_longer() -> None:
    """Whatever a task is granted alone."""
    machine = Machine(0.01, 0, replace(OPTIONS, retiming_s=0.0))
    list(machine.compared(math.inf))
    assert machine.runner.rounds == [(4, 5)]
    machine.runner.now_s = 60.0
    list(machine.compared(math.inf))
    assert machine.runner.rounds[1:3] == [(4, 5), (12, 5)]
    machine.options = replace(OPTIONS, retiming_s=math.inf)
    before = len(machine.runner.rounds)
    list(machine.compared(math.inf))
    assert machine.runner.rounds[before : before + 2] == [(4, 5), (12, 5)]


def test_the_log_says_what_won_last() -> None:
    """Whatever a few rounds said before."""
    machine = Machine(0.05, 3)
    task, target = machine.run.task, machine.run.task.target
    records = []
    for moment, (candidates, results) in enumerate(machine.compared(10.0), 1):
        machine.run.retime(results)
        records += [
            record_of(task.key, candidate, target, result, phase="final", time=float(moment))
            for candidate, result in zip(candidates, results, strict=True)
        ]
    best = best_of(task, records)
    assert best is not None and best.record.result == machine.run.retimed


def test_without_leaders_nothing_is_compared() -> None:
    machine = Machine(0.01, 0, TuneOptions(leaders=0, search=OPTIONS.search))
    assert list(machine.compared(10.0)) == []
    with pytest.raises(OptionError, match="leader_rounds"):
        TuneOptions(leader_rounds=0)
    few = Machine(0.01, 0, TuneOptions(contenders=0, search=OPTIONS.search))
    assert [len(candidates) for candidates, _ in few.compared(10.0)] == [4]


def test_rounds_that_differ_much_say_less_than_what_was_known() -> None:
    known, failed = [1.0, 1.02, 1.04], Failure("run", "SIGSEGV", "")
    even = [Timing((1.10, 1.10, 1.11)), Timing((1.05, 1.05, 1.06)), Timing((1.0, 1.0, 1.01))]
    assert by_belief(known, even) == [2, 1, 0]
    uneven = [Timing((1.1, 1.9, 1.1)), Timing((1.9, 1.05, 1.06)), Timing((0.6, 1.0, 1.01))]
    assert by_belief(known, uneven)[0] == 0
    assert by_belief(known, [failed, even[1], even[2]]) == [2, 1, 0]
    assert by_belief(known, [failed] * 3) == [0, 1, 2]
    assert by_belief([1.0], [even[0]]) == [0]


@pytest.mark.parametrize(("limit_s", "rounds"), [(12.0, [5]), (7.0, [3]), (1.0, [])])
def test_slow_candidates_get_the_rounds_that_fit(limit_s: float, rounds: list[int]) -> None:
    options = replace(OPTIONS, contenders=0)
    machine = Machine(0.01, 0, options)
    machine.run.scale(0.045 / machine.run.best_s)  # four of them, some runs each
    list(machine.compared(limit_s))
    assert machine.runner.rounds == [(4, n) for n in rounds]


def test_noisy_bursts_say_less_than_rounds_that_agree() -> None:
    even = [Timing((s, s, 1.01 * s)) for s in (1.05, 1.0, 1.03, 1.02)]
    lucky = [0.75, 0.85, 0.95, 1.03]
    assert by_belief(lucky, even)[0] == 1
    assert by_belief([0.9 * r.median for r in even], even)[0] == 1


def test_what_all_candidates_lose_in_a_round_says_nothing() -> None:
    slow_rounds = np.array([1.0, 1.6, 1.0, 1.7, 1.5])
    own = np.array([[1.00], [1.02], [1.01]]) * slow_rounds
    own[1, 1] = own[1, 3] = 1.0  # of two rounds that were slow, only others' shares
    results = [Timing(tuple(row)) for row in own]
    assert by_belief([1.0, 1.0, 1.0], results)[0] == 0
