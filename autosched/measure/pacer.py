"""How fast the machine is at the moment: a kernel that runs between the samples of others.

A core that others use, too, changes its speed by a third within tens of milliseconds: what a
kernel takes in one burst of samples says more of the moment than of the kernel.  The *pacer* of a
task, one of its measured kernels, runs before and after every sample.  What it takes then, over
what it usually takes, is the pace of the machine, and the sample is divided by it.  On a virtual
machine that was seen, bursts of one kernel differ by 12 to 25 % without a pacer, and by 5 to 13 %
with one (standard deviations of the fastest programs of four tasks).

Candidates that are timed in turns, within a tenth of a second, share their moment already: there
the pacer runs once in a round.  Between all samples it would leave their differences as noisy
(0.6 % instead of 0.7 %, median of 15 convolutions), in four times the time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from autosched.measure.result import MeasureResult, Timing
from autosched.tasks.candidate import Candidate

# A kernel that takes less than this share of the pacer's time takes its place.
_SHORTER: Final = 0.5
# A pace that is slower is not that of cores which others share, but of a kernel that had to wait.
_INTERRUPTED: Final = 1.5
# Samples of a timing that says what a pacer takes.
_SAMPLES: Final = 3
# Bursts whose paces are remembered: the middle one is the usual pace.
_PACES: Final = 256
# So many bursts at which it always took longer than ``_INTERRUPTED``: what it takes was misjudged.
_ENOUGH: Final = 16
# How far the usual pace may be from what it was taken to be: the logarithm.
_DRIFT: Final = 0.15


@dataclass(frozen=True, slots=True)
class Pacer:
    """Of a task.

    Attributes:
        candidate: whose kernel it is.
        kernel: machine code, pickled.
        seconds: that it usually takes.
    """

    candidate: Candidate
    kernel: bytes
    seconds: float


class PacedRun:
    """Runs of a kernel, each between two of the pacer; see the module.

    Args:
        run: mean seconds of so many runs of the kernel.
        run_pacer: seconds of the pacer.
        usual_s: seconds that the pacer usually takes.

    Attributes:
        alone: ``run``.
        paces: of the machine in each call, times as slow as usual.
    """

    def __init__(
        self, run: Callable[[int], float], run_pacer: Callable[[], float], usual_s: float
    ) -> None:
        self.alone, self._run_pacer, self._usual_s = run, run_pacer, usual_s
        self._before_s = run_pacer()
        self.paces: list[float] = []

    def __call__(self, runs: int) -> float:
        """Mean seconds of ``runs`` executions, as they would be at the usual pace.

        Of the two runs of the pacer the quicker one counts: an interruption of one of them must not
        make the kernel seem to be faster than it is.  Where both were interrupted the kernel may
        have run between the interruptions: what it took stays as it is.
        """
        seconds, before_s = self.alone(runs), self._before_s
        self._before_s = self._run_pacer()
        pace = min(before_s, self._before_s) / self._usual_s
        self.paces.append(pace)
        return at_usual_pace(seconds, pace)


@dataclass(slots=True)
class TaskPace:
    """The pacer of a task, and the paces that the machine had.

    Attributes:
        pacer: None before the first success.
        number: of the pacer: so many kernels have been it.
        paces: of the last bursts.
        known: whether it has been found what the pacer usually takes.
    """

    pacer: Pacer | None = None
    number: int = 0
    paces: deque[float] = field(default_factory=lambda: deque(maxlen=_PACES))
    known: bool = False

    def follow(self, candidate: Candidate, kernel: bytes, timing: Timing) -> None:
        """Another candidate was timed: the first one, or a much faster one, is the pacer, unless
        it was dropped early: its few samples say little.

        Args:
            candidate: that was timed.
            kernel: its machine code, pickled.
            timing: its result.
        """
        many, pace = len(timing.seconds) >= _SAMPLES, timing.pace
        if many and (self.pacer is None or timing.median < _SHORTER * self.pacer.seconds):
            self.pacer = Pacer(candidate, kernel, timing.median)
            self.number += 1
            if pace is None:  # a moment of its own: what the last one met says nothing of it
                self.paces.clear()
                pace = 1.0
        if self.pacer is not None and pace is not None:
            self.paces.append(pace)

    def new_level(self) -> float:
        """How many times as long as it was taken to be the pacer usually takes; 1: as long.

        Its first burst may have met any moment.  So what is usual is found again after its first
        batch, and whenever it has turned out to be clearly different.  Results since then are to be
        multiplied by it (``at_level``).
        """
        level, known = self._level(), self.known
        if self.pacer is None or level is None:
            return 1.0
        self.known = True
        if known and abs(math.log(level)) < _DRIFT:
            return 1.0
        self.pacer = replace(self.pacer, seconds=level * self.pacer.seconds)
        self.paces = deque((pace / level for pace in self.paces), maxlen=_PACES)
        return level

    def _level(self) -> float | None:
        """The usual one of the paces; None while that cannot be told."""
        usable = [pace for pace in self.paces if pace <= _INTERRUPTED]
        if len(usable) < 2 and len(self.paces) >= _ENOUGH:
            return min(sorted(self.paces)[1:])  # but the burst that it became the pacer in
        return median(usable) if usable else None


def at_usual_pace(seconds: float, pace: float) -> float:
    """What a kernel took while the machine was ``pace`` times as slow as usual, at its usual pace.

    Where the pacer was interrupted that says nothing of the kernel, whose time stays as it is.
    """
    return seconds if pace > _INTERRUPTED else seconds / pace


def at_level(result: MeasureResult, level: float) -> MeasureResult:
    """A timing whose pacer turns out to take ``level`` times as long; a failure as it is."""
    if not isinstance(result, Timing) or level == 1.0:
        return result
    pace = 1.0 if result.pace is None else result.pace
    corrected = pace <= _INTERRUPTED
    seconds = tuple(level * s for s in result.seconds) if corrected else result.seconds
    return replace(result, seconds=seconds, pace=pace / level)
