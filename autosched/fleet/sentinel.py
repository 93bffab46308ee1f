"""The sentinel: a kernel that every machine times with every piece of work.

It is the same on all machines, so that one which has become slow, or is slower than the others, is
noticed by more than the candidates that it happened to get.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from autosched.measure.options import MeasureOptions
from autosched.measure.protocol import MeasuredTask, Runner
from autosched.measure.result import Timing
from autosched.measure.runner import LocalRunner
from autosched.search.space import draft_candidate
from autosched.tasks.spec import TaskSpec
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators.matmul import matmul
from sketch.target.target import Target

# A product of square matrices: a millisecond at most, and enough work for all threads.
_SIZE: Final = 256
_ROUNDS: Final = 3
# Timings that say what is usual, and how many must be there first.
_REMEMBERED: Final = 64
_LEAST: Final = 3


class SentinelKernel:
    """Times the sentinel on this machine.

    Args:
        target: the machine.
        runner: times on it; it is shared where only one process may, as on a GPU.
    """

    def __init__(self, target: Target, runner: Runner) -> None:
        a, b = placeholder((_SIZE, _SIZE), name="A"), placeholder((_SIZE, _SIZE), name="B")
        self._task: MeasuredTask = TaskSpec(ComputeDAG([matmul(a, b, name="C")]), target)
        self._candidate = draft_candidate(self._task, quick=True)
        self._runner = runner
        self._runner.measure(self._task, [self._candidate])  # keeps its code

    def seconds(self) -> float | None:
        """The middle of a few rounds; None: it could not be timed."""
        (found,) = self._runner.remeasure(self._task, [self._candidate], _ROUNDS)
        return found.median if isinstance(found, Timing) else None


def sentinel_runner(target: Target, options: MeasureOptions) -> Runner:
    """What times the sentinel on a CPU: a process of its own.

    In one process with the candidates, the arrays of their task would be made again every time.
    With a pacer of its own it would never seem to be slow.
    """
    own = replace(options, builders=1, cache_state="warm", check="none", paced=False)
    return LocalRunner(target, own)


@dataclass(slots=True)
class SentinelTimes:
    """What the sentinel took on one machine, newest last."""

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def note(self, seconds: float) -> None:
        """One more timing."""
        self.seconds.append(seconds)

    @property
    def usual_s(self) -> float | None:
        """The lower quartile: what the machine takes when it is left alone; None: not known."""
        ordered = sorted(self.seconds)
        return ordered[len(ordered) // 4] if len(ordered) >= _LEAST else None

    def slowdown(self, seconds: float) -> float:
        """How many times slower than usual a timing is; 1 where that is not known."""
        usual = self.usual_s
        return 1.0 if usual is None else seconds / usual

    @property
    def noise(self) -> float | None:
        """How far the middle timing is above the usual one, as a share; None: not known."""
        usual = self.usual_s
        return None if usual is None else median(self.seconds) / usual - 1.0


def slowness(own: SentinelTimes, others: Iterable[SentinelTimes]) -> float:
    """How many times slower than the middle one of the others a machine is; 1: not known."""
    known = [times.usual_s for times in others]
    usual = [seconds for seconds in known if seconds is not None]
    if own.usual_s is None or not usual:
        return 1.0
    return own.usual_s / median(usual)
