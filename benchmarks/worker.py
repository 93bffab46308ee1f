"""The child process of one contender: it prepares a workload, then runs it on command.

Every contender has a process of its own, since OpenMP runtimes clash and since thread pools that
spin would disturb whoever runs next.  A child that is not commanded waits on its pipe.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contender import Contender, Prepared
from benchmarks.workloads import Workload
from codegen.closeable import Closeable


class ContenderError(Exception):
    """A contender could not be prepared or run; the message is the child's traceback."""


def pinned_cores(threads: int) -> tuple[int, ...]:
    """The cores that ``threads`` threads are pinned to: the first that this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    if threads > len(cores):
        raise ContenderError(f"{threads} threads asked for, this machine lends {len(cores)} cores")
    return tuple(cores[:threads])


def _pin(cores: Sequence[int]) -> None:
    """Pin this process, and let OpenMP runtimes that load later pin one thread to each core."""
    os.sched_setaffinity(0, cores)
    os.environ["OMP_NUM_THREADS"] = str(len(cores))
    os.environ["GOMP_CPU_AFFINITY"] = " ".join(map(str, cores))


def _time_runs(run: Callable[[], object], seconds: float, least: int) -> list[float]:
    """Warm up for a fifth of the time (threads wake, caches fill), then time each run."""
    clock = time.perf_counter
    start = clock()
    warm = 0
    while warm < 2 or clock() - start < seconds / 5:
        run()
        warm += 1
    times: list[float] = []
    deadline = clock() + seconds
    while len(times) < least or clock() < deadline:
        before = clock()
        run()
        times.append(clock() - before)
    return times


def _serve(
    pipe: Connection, contender: Contender, workload: Workload, cores: tuple[int, ...]
) -> None:
    """Answer commands until the pipe closes: ``("prepare", workload)``, ``("time", seconds,
    least)``, outputs or details.
    """
    try:
        _pin(cores)
        prepared = _prepare(pipe, contender, workload, len(cores))
        while True:
            command: tuple[Any, ...] = pipe.recv()
            if command[0] == "prepare":
                del prepared  # before the next one takes its memory
                first = os.sched_getaffinity(0)  # of this thread, as the last one pinned it
                os.sched_setaffinity(0, cores)
                prepared = _prepare(pipe, contender, command[1], len(cores))
                os.sched_setaffinity(0, first)
            elif command[0] == "time":
                pipe.send(("times", _time_runs(prepared.run, command[1], command[2])))
            elif command[0] == "details":
                pipe.send(("details", dict(prepared.details())))
            else:
                copies = {name: np.array(a) for name, a in prepared.outputs().items()}
                pipe.send(("outputs", copies))
    except EOFError:
        return
    except Exception:
        pipe.send(("error", traceback.format_exc()))


def _prepare(pipe: Connection, contender: Contender, workload: Workload, threads: int) -> Prepared:
    """Make a workload ready, run it once, and say how long that took."""
    start = time.perf_counter()
    prepared = contender.prepare(workload, threads)
    prepared.run()
    pipe.send(("ready", (time.perf_counter() - start, prepared.note)))
    return prepared


@dataclass(slots=True)
class Worker(Closeable):
    """A contender in its process.  ``prepare_s`` is load, compile and first run, in seconds."""

    name: str
    prepare_s: float
    note: str
    _pipe: Connection
    _process: Any

    @staticmethod
    def start(contender: Contender, workload: Workload, threads: int) -> Worker:
        """Start the process and wait until the workload is ready.

        Raises:
            ContenderError: it could not be prepared.
        """
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_serve, args=(theirs, contender, workload, pinned_cores(threads)), daemon=True
        )
        process.start()
        theirs.close()
        worker = Worker(contender.name, 0.0, "", ours, process)
        try:
            worker.prepare_s, worker.note = worker._receive()
        except ContenderError:
            worker.close()
            raise
        return worker

    def prepare(self, workload: Workload) -> None:
        """Make another workload ready in the same process.

        Raises:
            ContenderError: it could not be prepared; the process has ended.
        """
        self._pipe.send(("prepare", workload))
        self.prepare_s, self.note = self._receive()

    def time(self, seconds: float, least: int = 3) -> list[float]:
        """Run for about ``seconds``, at least ``least`` times; the seconds of each run."""
        self._pipe.send(("time", seconds, least))
        times: list[float] = self._receive()
        return times

    def outputs(self) -> Mapping[str, NDArray[np.float32]]:
        """The results of the latest run."""
        self._pipe.send(("outputs",))
        outputs: Mapping[str, NDArray[np.float32]] = self._receive()
        return outputs

    def details(self) -> Mapping[str, Any]:
        """Further figures of this contender."""
        self._pipe.send(("details",))
        details: Mapping[str, Any] = self._receive()
        return details

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _receive(self) -> Any:
        try:
            kind, value = self._pipe.recv()
        except EOFError as error:
            self._process.join(timeout=5)
            raise ContenderError(
                f"{self.name}: the process died with exit code {self._process.exitcode}"
            ) from error
        if kind == "error":
            raise ContenderError(f"{self.name}:\n{value}")
        return value
