"""How bursts of one kernel differ, and which candidates of a batch are worth another one.

A burst lasts milliseconds.  On a machine that others use, too, it says what a kernel took at one
moment: where bursts differ by 12 %, which has been seen on a virtual machine with a tenth of its
time taken, and the ten fastest of a batch by less, the fastest burst is a lucky one.  Samples of
the same burst share their moment, so that more of them do not help.  Further bursts, after those of
all other candidates, do; on a quiet machine hardly any candidate needs one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

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
# Samples of a candidate that was not dropped after its first runs.
_WHOLE: Final = 3


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

    def undecided(
        self, results: Sequence[MeasureResult], best_s: float = math.inf, bursts: int = 1
    ) -> list[int]:
        """Numbers of the candidates that may be the fastest of a batch, in its order.

        Args:
            results: of the batch so far.
            best_s: of the task before; a batch in which nothing comes near it has none.
            bursts: that those have had which may still be the fastest.
        """
        whole = {
            n: result.median
            for n, result in enumerate(results)
            if isinstance(result, Timing) and len(result.seconds) >= _WHOLE
        }
        fastest_s = min([best_s, *whole.values()])
        limit_s = fastest_s * math.exp(_BEHIND * self.deviation * math.sqrt(2.0 / bursts))
        return [n for n, seconds in whole.items() if seconds <= limit_s]


def joined(bursts: Sequence[Timing]) -> Timing:
    """Bursts of a candidate as one timing, each with as many samples: the later ones of each.

    The first sample of a further burst is left out where there are others: the caches had lost its
    code and data.
    """
    first, *further = bursts
    taken = [first.seconds, *(burst.seconds[1:] or burst.seconds for burst in further)]
    count = min(map(len, taken))
    return replace(
        first,
        seconds=tuple(second for seconds in taken for second in seconds[-count:]),
        error=next((burst.error for burst in bursts if burst.error is not None), None),
        variant_errors=next((b.variant_errors for b in bursts if b.variant_errors), ()),
    )
