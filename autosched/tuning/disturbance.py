"""Results that were measured while the machine was slower: noticed, and corrected.

Where each sample was divided by the pace of the machine (``measure.pacer``), that is noted, and so
is where samples were taken again, since other processes had the cores (``measure.bench``).  Where
not, and where what is usual has changed, times are corrected here.

When the fastest of a batch is slower than the task's best, the *anchor* is timed again, the
candidate with the least time that was ever measured of the task: if it has become slower, too, the
machine has, and the search takes the times of the batch divided by that.  What would be a new best
so is timed in turns with the old one, and must win clearly: nothing becomes the best by a
correction.  Then it takes the place of the best, but not less time: by how much it is faster, a
machine that is busy with something else does not say, and lucky rounds would add up.  The log keeps
what was measured, and of what won that it takes no longer than the best did.

When the fastest of a batch is far ahead of the best, the machine may have been slower before: the
anchor is timed again, and if it has become quicker, too, all that is known of the task is scaled.
So is the best, which may take less time than it is believed to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Final

from autosched.measure.protocol import Runner
from autosched.measure.result import MeasureResult, Timing, is_wrong, scaled
from autosched.records.paired import APART, clearly_faster

if TYPE_CHECKING:
    from autosched.tasks.candidate import Candidate
    from autosched.tuning.options import TuneOptions
    from autosched.tuning.task_run import TaskRun

# Rounds in which the anchor is timed again.
_AGAIN: Final = 3
# Of the rounds in turns, the share that a candidate did better in than it is believed to do.
_SURE: Final = 0.75


@dataclass(slots=True)
class Disturbances:
    """What is known of a run.

    Attributes:
        options: ``doubt``: a batch whose fastest takes this many times the best's time is looked
            into; ``slowdown``: of the anchor that is more than noise; ``leaders``: of a batch that
            are timed in turns with the best, in ``leader_rounds`` rounds.
        batches: that were measured.
        slowdowns: by number, of those in which the machine was slower.
        level: times as long as on the quiet machine that candidates take now, as far as is known.
        timed: candidates that were timed again and are faster for it than what is known of them,
            and their results, as they would have been on a quiet machine.
    """

    options: TuneOptions
    batches: int = 0
    slowdowns: dict[int, float] = field(default_factory=dict)
    level: float = 1.0
    timed: list[tuple[Candidate, MeasureResult]] = field(default_factory=list)

    def undisturbed(
        self,
        run: TaskRun,
        runner: Runner,
        candidates: Sequence[Candidate],
        results: Sequence[MeasureResult],
    ) -> list[MeasureResult]:
        """Results of a batch as they would have been on a quiet machine.

        Args:
            run: state of the task, before the batch.
            runner: times again.
            candidates: of the batch.
            results: one for each candidate.
        """
        suspicious = self.suspicious(results, run.best_s)
        self._note(max(_pace(results), _waiting(results)))
        if not suspicious or not run.successes:
            return list(results)
        found = self.corrected(results, self._anchor_now(run, runner), run.anchor[0])
        faster = challengers(found, run.best_s, max(1, self.options.leaders))
        if not faster:
            return found
        ((_, best),) = run.measured.leaders(1)
        timed = [best, *(candidates[n] for n in faster)]
        holder, *others = runner.remeasure(run.task, timed, self.options.leader_rounds)
        in_turns = dict(zip(faster, others, strict=True))
        told = confirmed(results, found, run.best_s, in_turns, holder)
        self.timed += [
            (candidates[n], told[n])
            for n in faster
            if is_wrong(told[n]) or (isinstance(r := told[n], Timing) and r.median < run.best_s)
        ]
        return told

    def _anchor_now(self, run: TaskRun, runner: Runner) -> MeasureResult:
        """The anchor timed again: once where that is as quick as ever, which it mostly is."""
        anchor_s, anchor = run.anchor
        (once,) = runner.remeasure(run.task, [anchor], 1)
        if not isinstance(once, Timing) or once.best < self.options.slowdown * anchor_s:
            return once
        (again,) = runner.remeasure(run.task, [anchor], _AGAIN)
        return again

    def quicker(self, run: TaskRun, runner: Runner, results: Sequence[MeasureResult]) -> float:
        """How many times as quick the machine is now as it was for what is known of a task; 1 where
        nothing says so clearly.

        The anchor says it, whose time was measured.  The best may have won in turns, and take less
        time than it is believed to: then the task is told.

        Args:
            run: state of the task, before the batch.
            runner: times again.
            results: of the batch.
        """
        least_s = run.best_s / self.options.slowdown
        if not run.successes or _fastest(results) >= least_s:
            return 1.0
        (anchor_s, anchor), ((_, best),) = run.anchor, run.measured.leaders(1)
        again, best_again = runner.remeasure(run.task, [anchor, best], _AGAIN)
        if isinstance(again, Timing) and self.options.slowdown * again.median <= anchor_s:
            self.timed.append((anchor, again))
            return anchor_s / again.median
        if isinstance(best_again, Timing) and best_again.median <= least_s:
            self.timed.append((best, best_again))
            run.correct(best, best_again)
        return 1.0

    def take(self) -> tuple[list[Candidate], list[MeasureResult]]:
        """What was ``timed``, once."""
        timed, self.timed = self.timed, []
        return [candidate for candidate, _ in timed], [result for _, result in timed]

    def suspicious(self, results: Sequence[MeasureResult], best_s: float) -> bool:
        """Whether the anchor should be timed again after a batch; ``best_s``: of the task."""
        self.batches += 1
        suspicious = self.options.doubt * best_s < _fastest(results) < math.inf
        self.level = self.level if suspicious else 1.0
        return suspicious

    def corrected(
        self, results: Sequence[MeasureResult], again: MeasureResult, anchor_s: float
    ) -> list[MeasureResult]:
        """The batch as it would have been.

        Args:
            results: of the batch.
            again: the anchor, timed after it; its fastest round counts.
            anchor_s: seconds that the anchor took before.
        """
        slowdown = again.best / anchor_s if isinstance(again, Timing) else 1.0
        self.level = slowdown if slowdown >= self.options.slowdown else 1.0
        if self.level == 1.0:
            return list(results)
        self._note(slowdown)
        return [scaled(result, 1.0 / slowdown) for result in results]

    def _note(self, slowdown: float) -> None:
        """Of the last batch."""
        if slowdown >= self.options.slowdown:
            self.slowdowns[self.batches] = max(slowdown, self.slowdowns.get(self.batches, 1.0))

    def __str__(self) -> str:
        """One line; empty where the machine was quiet."""
        if not self.slowdowns:
            return ""
        return (
            f"the machine was disturbed: in {len(self.slowdowns)} of {self.batches} batches it was "
            f"up to {max(self.slowdowns.values()):.2g} times slower; times were corrected where "
            f"that was possible"
        )


def _pace(results: Sequence[MeasureResult]) -> float:
    """Times as slow as usual that the machine was; 1 where that is unknown."""
    paces = [r.pace for r in results if isinstance(r, Timing) and r.pace is not None]
    return median(paces) if paces else 1.0


def _waiting(results: Sequence[MeasureResult]) -> float:
    """Times as long as what counts that a timing took, since other processes had the cores."""
    return median([r.waiting for r in results if isinstance(r, Timing)] or [1.0])


def _fastest(results: Sequence[MeasureResult]) -> float:
    """Seconds; infinite without a success."""
    return min(
        (result.median for result in results if isinstance(result, Timing)), default=math.inf
    )


def challengers(results: Sequence[MeasureResult], best_s: float, most: int) -> list[int]:
    """Numbers of corrected results below the best, fastest first.

    Args:
        results: of a batch.
        best_s: seconds of the best before it.
        most: of them.
    """
    below = [
        (result.median, n)
        for n, result in enumerate(results)
        if isinstance(result, Timing) and result.median < best_s
    ]
    return [n for _, n in sorted(below)[:most]]


def confirmed(
    raw: Sequence[MeasureResult],
    corrected: Sequence[MeasureResult],
    best_s: float,
    in_turns: Mapping[int, MeasureResult],
    best: MeasureResult,
) -> list[MeasureResult]:
    """Results of which only those are below the best that won against it.

    Args:
        raw: results of a batch.
        corrected: the same, corrected; of those below the best that were not timed in turns nobody
            knows whether they were slowed down at all: they come behind those that were timed, and
            ``raw`` is the most that they take.
        best_s: seconds of the best before the batch.
        in_turns: timings of some, by number, taken in turns with the best.
        best: its timing there.
    """
    shares = _shares(in_turns, best)
    last_s = best_s * max(1.0 + APART, *shares.values()) if shares else math.inf
    found: list[MeasureResult] = []
    for n, (before, result) in enumerate(zip(raw, corrected, strict=True)):
        again = in_turns.get(n)
        if again is not None and is_wrong(again):
            found.append(again)
        elif isinstance(result, Timing) and isinstance(again, Timing) and n in shares:
            checked = replace(result, error=result.error if again.error is None else again.error)
            found.append(scaled(checked, best_s * shares[n] / result.median))
        elif not isinstance(result, Timing) or result.median >= best_s:
            found.append(result)
        elif isinstance(before, Timing) and again is None:
            behind_s = last_s * (1.0 + APART * result.median / best_s)  # in their order
            found.append(scaled(before, min(1.0, behind_s / before.median)))
        else:
            found.append(before)
    return found


def _shares(in_turns: Mapping[int, MeasureResult], best: MeasureResult) -> dict[int, float]:
    """What share of the best's time candidates are believed to take, by number: hardly less where
    they won clearly, the fastest least; else more, as what they took at most in ``_SURE`` of their
    rounds.
    """
    if not isinstance(best, Timing):
        return {}
    times = {n: timing for n, timing in in_turns.items() if isinstance(timing, Timing)}
    won = [n for n, timing in times.items() if clearly_faster(timing.seconds, best.seconds)]
    slowest_first = sorted(won, key=lambda n: -times[n].median)
    ahead = {n: 1.0 - place * APART for place, n in enumerate(slowest_first, 1)}
    return {n: ahead.get(n, _behind(timing, best)) for n, timing in times.items()}


def _behind(timing: Timing, best: Timing) -> float:
    parts = sorted(a / b for a, b in zip(timing.seconds, best.seconds, strict=True))
    return max(1.0 + APART, parts[min(len(parts) - 1, int(_SURE * len(parts)))])
