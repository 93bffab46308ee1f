"""The last comparison: the fastest candidates of every task are timed in turns.

Of some thousand bursts the least are lucky ones; next to each other, candidates take what they
take.  First the leaders of all tasks are compared in a few rounds, which is a matter of a second or
two.  In what is left of the time for it, more candidates of each task are compared in more rounds:
where single runs differ by 5 %, five rounds of four candidates choose one that is 1 to 3 % slower
than the best that was measured, in a simulation of a thousand candidates, and these 0.5 to 1.5 %.
On a virtual machine whose bursts differed by 12 %, what was best of 12 candidates by the medians of
five rounds was 1.8 % slower than the best of all rounds, of fifteen 1.1 %; where each round is
taken off first, 1.1 and 0.6 % (four tasks, 60 rounds).

After five rounds most of the candidates have no hope left and are compared no further: where rounds
differ by 1 %, two in five samples are enough for the same choice, by 5 % four in five (simulated).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.protocol import Runner
from autosched.measure.result import MeasureResult, Timing

if TYPE_CHECKING:
    from autosched.tasks.candidate import Candidate
    from autosched.tasks.spec import TaskSpec
    from autosched.tuning.options import TuneOptions
    from autosched.tuning.task_run import TaskRun

Compared = tuple["TaskRun", list["Candidate"], list[MeasureResult]]

# Rounds of the long comparison, and the least of them.
_ROUNDS: Final = 16
_LEAST: Final = 5
# What a round takes of a candidate: so many runs, or one and these seconds.
_SAMPLE_RUNS: Final = 14
_SAMPLE_S: Final = 0.5
# Of the shortest of bursts, relative to what candidates take.
_BURST_NOISE: Final = 0.02
# Candidates from which on it is told how noisy bursts were.
_LEAST_TO_TELL: Final = 4
# Standard deviations of a difference by which a candidate is too slow to be compared further.
_HOPE: Final = 4.0
# The variance of a median, over that of a mean of as many.
_OF_MEDIANS: Final = math.pi / 2


def comparisons(
    runs: Sequence[TaskRun],
    runner: Runner,
    options: TuneOptions,
    clock: Callable[[], float],
    limit_s: float,
) -> Iterator[Compared]:
    """Candidates of tasks and their results, taken in turns, those first that are believed to be
    the fastest.  A later comparison of a task has all candidates of the earlier one.

    Args:
        runs: of tasks that have successes; those that take most of the total come first.
        runner: times again.
        options: ``leaders`` and ``contenders``, ``leader_rounds``, and how long the
            comparisons may take: ``retiming_s`` for each task, or ``retiming_share`` of the run.
        clock: seconds since the run began.
        limit_s: when the budget of the run is spent; no round is begun that
            would end after it.
    """
    order = sorted(runs, key=lambda run: -run.task.weight * run.best_s)
    own_s = max(options.retiming_s * len(order), options.retiming_share * clock())
    end_s = min(limit_s, clock() + own_s)
    took: list[tuple[TaskRun, float]] = []
    for run in order:
        began_s = clock()
        if not options.leaders or began_s >= limit_s:
            return
        leaders = run.leaders(options.leaders)
        round_s = len(leaders) * min(_SAMPLE_RUNS * run.best_s, run.best_s + _SAMPLE_S)
        rounds = int(min(options.leader_rounds, (limit_s - began_s) / round_s))
        if not rounds:
            continue
        found = runner.remeasure(run.task, leaders, rounds)
        took.append((run, max(run.best_s, (clock() - began_s) / (len(leaders) * rounds))))
        yield run, leaders, found
    if options.contenders <= options.leaders:
        return
    for place, (run, sample_s) in enumerate(took):
        share = sample_s / sum(each_s for _, each_s in took[place:])
        until_s = clock() + share * (end_s - clock())
        count = int(min(options.contenders, (end_s - clock()) / (sample_s * _LEAST)))
        if count > options.leaders:
            contenders = run.contenders(count, _BURST_NOISE)
            further = partial(_further, clock, until_s, sample_s)
            ranked, found = _compared(run.task, runner, contenders, further)
            yield run, [contenders[n][1] for n in ranked], [found[n] for n in ranked]


def _further(clock: Callable[[], float], until_s: float, sample_s: float, left: int) -> int:
    """More rounds of so many candidates, as many as there is time for until a moment."""
    return int(min(_ROUNDS - _LEAST, (until_s - clock()) / (left * sample_s)))


def _compared(
    task: TaskSpec,
    runner: Runner,
    contenders: Sequence[tuple[float, Candidate]],
    further: Callable[[int], int],
) -> tuple[list[int], list[MeasureResult]]:
    """Numbers of the contenders, those first that are believed to be the fastest, and the results.

    Those that the first rounds leave no hope for are in no further ones.

    Args:
        task: whose candidates they are.
        runner: times them.
        contenders: seconds before, and candidates.
        further: in how many more rounds so many candidates may be compared.
    """
    candidates = [candidate for _, candidate in contenders]
    results = runner.remeasure(task, candidates, _LEAST)
    ranked = by_belief([seconds for seconds, _ in contenders], results)
    near = _near(ranked, results)
    rounds = further(len(near)) if len(near) > 1 else 0
    if rounds < 1:
        return ranked, results
    again = runner.remeasure(task, [candidates[n] for n in near], rounds)
    for n, result in zip(near, again, strict=True):
        results[n] = _both(results[n], result)
    order = by_belief([contenders[n][0] for n in near], [results[n] for n in near])
    return [*(near[place] for place in order), *(n for n in ranked if n not in near)], results


def _near(ranked: Sequence[int], results: Sequence[MeasureResult]) -> list[int]:
    """Those of ``ranked`` that chance may have kept from being the fastest in these rounds."""
    numbers = [n for n in ranked if isinstance(results[n], Timing)]
    if not numbers:
        return []
    logs = np.log([r.seconds for n in numbers if isinstance(r := results[n], Timing)])
    own = _apart(logs)
    limit = float(own.min()) + _HOPE * math.sqrt(2.0 * _variance(logs))
    return [n for n, value in zip(numbers, own, strict=True) if value <= limit or n == numbers[0]]


def _both(before: MeasureResult, now: MeasureResult) -> MeasureResult:
    """Two results of a candidate as one."""
    if isinstance(before, Timing) and isinstance(now, Timing):
        return replace(now, seconds=(*before.seconds, *now.seconds))
    return now


def by_belief(known_s: Sequence[float], results: Sequence[MeasureResult]) -> list[int]:
    """Numbers of the candidates, best first; at the end those that failed.

    What they took in turns and what was known before count by how noisy they are: on a disturbed
    machine a few rounds say less than the bursts of an hour.

    Args:
        known_s: seconds of each, before.
        results: of each, taken in turns.
    """
    timed = [(n, r.seconds) for n, r in enumerate(results) if isinstance(r, Timing)]
    failed = [n for n, r in enumerate(results) if not isinstance(r, Timing)]
    if not timed:
        return failed
    numbers = np.array([n for n, _ in timed])
    logs = np.log([seconds for _, seconds in timed])  # [candidates, rounds]
    own = _apart(logs)
    known = np.log([known_s[n] for n in numbers])
    variance = _variance(logs)
    of_known = _variance_of_known(own - known, variance)
    share = of_known / (of_known + variance)
    believed = share * own + (1.0 - share) * known
    return [*map(int, numbers[np.argsort(believed, kind="stable")]), *failed]


def _apart(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far candidates are from each other, [candidates] of [candidates, rounds].

    A round is a moment of the machine: what all candidates lost in it says nothing of any.
    """
    found: NDArray[np.float64] = np.median(logs - np.median(logs, axis=0), axis=1)
    return found


def _variance_of_known(differences: NDArray[np.float64], of_rounds: float) -> float:
    """Of the logarithms of what was known: what rounds differ from it by, less their own."""
    if len(differences) < _LEAST_TO_TELL:
        return _BURST_NOISE**2
    return max(_BURST_NOISE**2, float(np.var(differences, ddof=1)) - of_rounds)


def _variance(logs: NDArray[np.float64]) -> float:
    """Of the medians of rounds, from how rounds differ besides what all candidates share."""
    candidates, rounds = logs.shape
    if min(candidates, rounds) < 2:
        return 0.0
    rest = logs - logs.mean(axis=0)
    rest -= rest.mean(axis=1, keepdims=True)
    variance = float((rest**2).sum()) / ((candidates - 1) * (rounds - 1))
    return _OF_MEDIANS * variance / rounds
