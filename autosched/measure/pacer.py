"""How fast the machine is at the moment: a kernel that runs between the samples of others.

A core that others use, too, changes its speed by a third within tens of milliseconds: what a
kernel takes in one burst of samples says more of the moment than of the kernel.  The *pacer* of a
task, one of its measured kernels, runs before and after every sample.  What it takes then, over
what it usually takes, is the pace of the machine, and the sample is divided by it.  On a virtual
machine that was seen, bursts of one kernel differ by 15 to 19 % without a pacer, and by 5 to 8 %
with one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from autosched.measure.result import MeasureResult, Timing
from autosched.tasks.candidate import Candidate

# A kernel that takes less than this share of the pacer's time takes its place.
_SHORTER: Final = 0.5
# The usual pace is that of the quieter moments: so many of the last bursts were quicker.
_QUIET: Final = 0.25
# Bursts that are remembered.
_PACES: Final = 256
# A pace that is quicker than usual by more than noise.
_QUICKER: Final = 0.9


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
        paces: of the machine in each call, times as slow as usual.
    """

    def __init__(
        self, run: Callable[[int], float], run_pacer: Callable[[], float], usual_s: float
    ) -> None:
        self._run, self._run_pacer, self._usual_s = run, run_pacer, usual_s
        self._before_s = run_pacer()
        self.paces: list[float] = []

    def __call__(self, runs: int) -> float:
        """Mean seconds of ``runs`` executions, as they would be at the usual pace."""
        seconds, before_s = self._run(runs), self._before_s
        self._before_s = self._run_pacer()
        self.paces.append(math.sqrt(before_s * self._before_s) / self._usual_s)
        return seconds / self.paces[-1]


@dataclass(slots=True)
class TaskPace:
    """The pacer of a task, and the paces that the machine had.

    Attributes:
        pacer: None before the first success.
        paces: of the last bursts.
        batches: that were levelled.
    """

    pacer: Pacer | None = None
    paces: deque[float] = field(default_factory=lambda: deque(maxlen=_PACES))
    batches: int = 0

    def follow(self, candidate: Candidate, kernel: bytes, timing: Timing) -> None:
        """Another candidate was timed: the first one, or a much faster one, is the pacer.

        Args:
            candidate: that was timed.
            kernel: its machine code, pickled.
            timing: its result.
        """
        self.paces.append(1.0 if timing.pace is None else timing.pace)
        if self.pacer is None or timing.median < _SHORTER * self.pacer.seconds:
            self.pacer = Pacer(candidate, kernel, timing.median)

    def levelled(self, results: Sequence[MeasureResult]) -> list[MeasureResult]:
        """Results of a batch, at the usual pace.

        The pacer's first burst may have met any moment.  So what is usual is found again after the
        first batch, and whenever the machine turns out to be clearly quicker.
        """
        self.batches += 1
        level = float(np.quantile(self.paces, _QUIET)) if self.paces else 1.0
        if self.pacer is None or (self.batches > 1 and level > _QUICKER):
            return list(results)
        self.pacer = replace(self.pacer, seconds=level * self.pacer.seconds)
        self.paces = deque((pace / level for pace in self.paces), maxlen=_PACES)
        return [_at_level(result, level) for result in results]


def _at_level(result: MeasureResult, level: float) -> MeasureResult:
    if not isinstance(result, Timing):
        return result
    seconds = tuple(level * s for s in result.seconds)
    return replace(result, seconds=seconds, pace=(result.pace or 1.0) / level)
