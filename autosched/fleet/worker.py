"""What runs on each machine: the runner of one machine, and the sentinel beside it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from autosched.fleet.sentinel import SentinelKernel, sentinel_runner
from autosched.fleet.work import Answer, Work
from autosched.measure.build_pool import TimedBuild
from autosched.measure.options import MeasureOptions
from autosched.measure.protocol import Runner
from autosched.measure.result import MeasureResult
from autosched.measure.runner import LocalRunner
from sketch.errors import AutoschedError
from sketch.target.target import Target

# What the sentinel took so long ago still says how busy the machine is.
_FRESH_S: Final = 0.5


class MachineWorker:
    """Owns the cores of a machine, or its GPU; answers one piece of work after another."""

    def __init__(self) -> None:
        with contextlib.suppress(OSError):  # Ray gives its processes a low priority
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        self._runner: LocalRunner | None = None
        self._beside: Runner | None = None
        self._sentinel: SentinelKernel | None = None
        self._last: tuple[float, float | None] = -_FRESH_S, None

    def open(self, target: Target, options: MeasureOptions, alone: bool) -> str:
        """Start what measures; why that cannot be done here, or nothing.

        ``alone``: one process times all, as one has the GPU.
        """
        try:
            # What is usual is known on one machine only: it would set machines apart.
            self._runner = LocalRunner(target, replace(options, paced=False))
            self._beside = self._runner if alone else sentinel_runner(target, options)
            self._sentinel = SentinelKernel(target, self._beside)
        except AutoschedError as error:
            return " ".join(str(error).split())
        return ""

    def work(self, work: Work, best_s: float, built: Sequence[TimedBuild] | None = None) -> Answer:
        """Build and time.

        Args:
            work: candidates.
            best_s: the task's best time so far, in seconds.
            built: their kernels, from another machine; None: they are built here.
        """
        assert self._runner is not None, "the worker was opened"
        task, candidates = work.unpacked()
        runner, before = self._runner, self._before()
        results: list[MeasureResult | float]
        if work.kind == "measure":
            begin = runner.submit if built is None else partial(runner.submit_built, built=built)
            results = [*runner.collect(begin(task, candidates), best_s)]
        elif work.kind == "remeasure":
            results = [*runner.remeasure(task, candidates, work.rounds)]
        else:
            results = [runner.verify(task, candidates[0])]
        known = [s for s in (before, self.sentinel()) if s is not None]
        return Answer(tuple(results), max(known, default=None))

    def sentinel(self) -> float | None:
        """Seconds that the sentinel takes now; None: it cannot be timed."""
        assert self._sentinel is not None, "the worker was opened"
        seconds = self._sentinel.seconds()
        self._last = time.monotonic(), seconds
        return seconds

    def _before(self) -> float | None:
        """What the sentinel took a moment ago, else what it takes now."""
        when, seconds = self._last
        return seconds if time.monotonic() - when < _FRESH_S else self.sentinel()

    def close(self) -> None:
        """End all processes of this machine."""
        for runner in (self._beside, self._runner):
            if runner is not None:
                runner.close()


def sentinel_times(target: Target, alone: bool, count: int) -> list[float]:
    """What the sentinel takes on this machine, ``count`` times: seconds; ``alone``: on its GPU."""
    worker = MachineWorker()
    try:
        if worker.open(target, MeasureOptions(builders=1), alone):
            return []  # it cannot measure for this target
        times = [worker.sentinel() for _ in range(count)]
        return [seconds for seconds in times if seconds is not None]
    finally:
        worker.close()
