"""How bursts of one kernel differ, and which candidates of a batch are worth another one.

A burst lasts milliseconds.  On a machine that others use, too, it says what a kernel took at one
moment: where bursts differ by 12 %, as on a virtual machine that was seen, and the ten fastest of a
batch by less, the fastest burst is a lucky one.  Samples of the same burst share their moment, so
that more of them do not help.  Further bursts, after those of all other candidates, do; on a quiet
machine hardly any candidate needs one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from autosched.measure.errors import killed_from_outside
from autosched.measure.result import MeasureResult, Timing

# Standard deviation of the logarithm of a burst before anything is known, and what it counts for.
_EXPECTED: Final = 0.05
_EXPECTED_PAIRS: Final = 4
# Pairs that are remembered: a machine is as noisy as it was lately.
_PAIRS: Final = 64
# Of normal numbers: the standard deviation over the middle absolute value.
_OF_MIDDLE: Final = 1.4826
# Standard deviations of a comparison by which a candidate must be behind the fastest to be
# out of question.
_BEHIND: Final = 2.0


@dataclass(slots=True)
class BurstNoise:
    """Of one runner.

    Attributes:
        pairs: differences of the logarithms of a candidate's first two bursts, the newest last.
    """

    pairs: deque[float] = field(default_factory=lambda: deque(maxlen=_PAIRS))

    @property
    def deviation(self) -> float:
        """Standard deviation of the logarithm of a burst."""
        expected = [_EXPECTED * math.sqrt(2.0) / _OF_MIDDLE] * _EXPECTED_PAIRS
        return _OF_MIDDLE * median([*map(abs, self.pairs), *expected]) / math.sqrt(2.0)

    def note(self, first: Timing, second: Timing) -> None:
        """Learn from two bursts of a candidate."""
        self.pairs.append(math.log(second.median / first.median))


class BatchBursts:
    """The bursts of the candidates of one batch.

    Args:
        noise: of the runner; it learns from the second bursts.
        results: of one burst each.
        best_s: of the task before the batch, in seconds; infinite without.
        most: bursts of a candidate.
        dropped: a first burst that took this many times the fastest is not worth another one.
    """

    def __init__(
        self,
        noise: BurstNoise,
        results: Sequence[MeasureResult],
        best_s: float,
        most: int,
        dropped: float,
    ) -> None:
        self.results = list(results)
        self._noise, self._best_s, self._most = noise, best_s, most
        timed = {n: [r] for n, r in enumerate(results) if isinstance(r, Timing)}
        fastest_s = min([best_s, *(burst.median for (burst,) in timed.values())])
        self._bursts = {n: b for n, b in timed.items() if b[0].median <= dropped * fastest_s}
        self._tries = dict.fromkeys(self._bursts, 1)

    def undecided(self) -> list[int]:
        """Numbers of the candidates that may be the fastest and have had fewer than ``most``."""
        seconds = {n: joined(bursts).median for n, bursts in self._bursts.items()}
        if not seconds:
            return []
        fastest = min(seconds, key=lambda n: seconds[n])
        fastest_s = min(seconds[fastest], self._best_s)
        near = [n for n, own in seconds.items() if own <= fastest_s * self._reach(n, fastest)]
        if near == [fastest] and self._best_s > fastest_s * self._reach(fastest, fastest):
            return []  # nothing comes near it
        return [n for n in near if self._tries[n] < self._most]

    def _reach(self, one: int, other: int) -> float:
        """How many times as long as the fastest a candidate may seem to take, and be faster."""
        variance = 1.0 / len(self._bursts[one]) + 1.0 / len(self._bursts[other])
        return math.exp(_BEHIND * self._noise.deviation * math.sqrt(variance))

    def add(self, number: int, result: MeasureResult) -> None:
        """Take another burst of a candidate; one whose process others killed says nothing."""
        self._tries[number] += 1
        if isinstance(result, Timing):
            bursts = self._bursts[number]
            if len(bursts) == 1:
                self._noise.note(bursts[0], result)
            bursts.append(result)
            self.results[number] = joined(bursts)
        elif not killed_from_outside(result.kind):
            self.results[number] = result
            del self._bursts[number]


def joined(bursts: Sequence[Timing]) -> Timing:
    """Bursts of a candidate as one timing, whose samples are their medians."""
    first, *further = bursts
    if not further:
        return first
    return replace(
        first,
        seconds=tuple(burst.median for burst in bursts),
        error=next((burst.error for burst in bursts if burst.error is not None), None),
        variant_errors=next((b.variant_errors for b in bursts if b.variant_errors), ()),
    )
