"""Calls of a program with an executor and a team of threads: once, timed, counted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from threading import get_native_id
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.counters.counts import StepCounts
from autosched.runtime.counters.reader import Reader
from autosched.runtime.executor import Executor

if TYPE_CHECKING:
    from codegen.team import Team

Arrays = Mapping[str, NDArray[Any]]

_WARMUP_SECONDS: Final = 0.05


class Execution(NamedTuple):
    """Memory and threads that belong to one caller; ``team`` None: the caller computes alone."""

    executor: Executor
    team: Team | None

    def once(self, arrays: Arrays, given: Arrays | None = None) -> dict[str, NDArray[Any]]:
        """The outputs: in those of the ``given`` arrays that can be written in place, or new."""
        self.executor.bind(arrays, given)
        self.executor.run(self._team)
        return self.executor.results()

    def time(self, arrays: Arrays, repeats: int, warmup: int) -> list[float]:
        """Seconds of every run."""
        self._warm(arrays, warmup)
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            self.once(arrays)
            seconds.append(time.perf_counter() - start)
        return seconds

    def time_steps(
        self, arrays: Arrays, repeats: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Seconds end to end, float64 ``[repeats]``, and of every step, ``[repeats, steps]``."""
        self._warm(arrays, 1)
        rows = []
        total = np.zeros(repeats)
        for row in range(repeats):
            start = time.perf_counter()
            self.executor.bind(arrays)
            self.executor.run_timed(self._team)
            self.executor.results()
            total[row] = time.perf_counter() - start
            rows.append(self.executor.step_nanoseconds() * 1e-9)
        return total, np.array(rows)

    def count_steps(self, arrays: Arrays, repeats: int) -> StepCounts:
        """What every step did, over all threads, in ``repeats`` runs."""
        from autosched.runtime.counters.measure import count_steps

        def once(reader: Reader) -> NDArray[np.int64]:
            self.executor.bind(arrays)
            differences = self.executor.run_counted(reader, self._team)
            self.executor.results()
            return differences

        self._warm(arrays, 1)
        return count_steps(once, self.executor.target, self.thread_ids(), repeats)

    def thread_ids(self) -> tuple[int, ...]:
        """The system's ids of the threads that compute, the calling one first."""
        return (get_native_id(), *(() if self.team is None else self.team.worker_ids()))

    @property
    def _team(self) -> int:
        return 0 if self.team is None else self.team.address

    def _warm(self, arrays: Arrays, least: int) -> None:
        """Threads awake, caches filled, every page touched."""
        deadline = time.perf_counter() + _WARMUP_SECONDS
        runs = 0
        while runs < least or time.perf_counter() < deadline:
            self.once(arrays)
            runs += 1
