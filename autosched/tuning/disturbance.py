"""Batches that were measured while the machine was slower: noticed, and corrected.

When the fastest of a batch is slower than the task's best, the best is timed again: if it has
become slower, too, the machine has, and the search takes the times of the batch divided by that.
What would be a new best so is timed in turns with the old one, and must win clearly: nothing
becomes the best by a correction.  The log keeps what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autosched.measure.result import MeasureResult, Timing, scaled
from autosched.records.paired import clearly_faster


@dataclass(slots=True)
class Disturbances:
    """What is known of a run.

    Attributes:
        doubt: a batch whose fastest takes this many times the best's time is looked into.
        least: slowdown of the best that is more than noise.
        batches: that were measured.
        slowdowns: of those in which the machine was slower.
    """

    doubt: float
    least: float
    batches: int = 0
    slowdowns: list[float] = field(default_factory=list)

    def suspicious(self, results: Sequence[MeasureResult], best_s: float) -> bool:
        """Whether the best, in seconds, should be timed again after a batch."""
        self.batches += 1
        times = [result.median for result in results if isinstance(result, Timing)]
        return bool(times) and min(times) > self.doubt * best_s

    def corrected(
        self, results: Sequence[MeasureResult], again: MeasureResult, best_s: float
    ) -> list[MeasureResult]:
        """The batch as it would have been.

        Args:
            results: of the batch.
            again: the best, timed after it; its fastest round counts.
            best_s: seconds that the best took before.
        """
        slowdown = again.best / best_s if isinstance(again, Timing) else 1.0
        if slowdown < self.least:
            return list(results)
        self.slowdowns.append(slowdown)
        return [scaled(result, 1.0 / slowdown) for result in results]

    def __str__(self) -> str:
        """One line; empty where the machine was quiet."""
        if not self.slowdowns:
            return ""
        return (
            f"the machine was disturbed: in {len(self.slowdowns)} of {self.batches} batches it was "
            f"up to {max(self.slowdowns):.2g} times slower; their times were corrected"
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
            knows whether they were slowed down at all, and ``raw`` counts.
        best_s: seconds of the best before the batch.
        in_turns: timings of some, by number, taken in turns with the best.
        best: its timing there.
    """
    found: list[MeasureResult] = []
    for n, result in enumerate(corrected):
        again = in_turns.get(n)
        if isinstance(result, Timing) and isinstance(again, Timing) and isinstance(best, Timing):
            least = 0.0 if clearly_faster(again.seconds, best.seconds) else best_s
            wanted = max(least, best_s * again.median / best.median)
            found.append(scaled(result, wanted / result.median))
        elif isinstance(result, Timing) and result.median < best_s:
            found.append(raw[n])
        else:
            found.append(result)
    return found
