"""The one thread that native code runs on.

libgomp keeps a team of workers for every thread that opens parallel regions.  If each caller had
its own team, teams would spin against each other; so a single thread of the process owns the only
team, and everyone hands work over to it (about 5 us).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from autosched.runtime.errors import AssemblyError

T = TypeVar("T")


class Runner:
    """A thread that executes one function at a time, in the order of arrival."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._start, self._finish = threading.Lock(), threading.Lock()
        self._start.acquire()
        self._finish.acquire()
        self._work: Callable[[], Any] | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._pinned: tuple[int, ...] = ()
        self._thread = threading.Thread(target=self._loop, name="autosched-runner", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], T]) -> T:
        """``work()`` on the runner's thread; its exception is raised here.

        An interrupt (Ctrl-C) is delivered after the work has ended: native code cannot be stopped.
        """
        if threading.current_thread() is self._thread:
            return work()
        with self._turn:
            self._work = work
            self._start.release()
            interrupted = self._wait()
            result, error = self._result, self._error
            self._work = self._result = self._error = None
        if interrupted:
            raise KeyboardInterrupt
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def _wait(self) -> bool:
        interrupted = False
        while True:
            try:
                self._finish.acquire()
                return interrupted
            except KeyboardInterrupt:
                interrupted = True

    def _loop(self) -> None:
        while True:
            self._start.acquire()
            try:
                assert self._work is not None
                self._result = self._work()
            except BaseException as error:
                self._error = error
            self._finish.release()

    def pin(self, cores: Sequence[int]) -> None:
        """Bind worker k of a team of ``len(cores)`` threads to core ``cores[k]``.

        The calling thread is left alone.  Raises AssemblyError when a core is not lent to us.
        """
        wanted = tuple(cores)
        missing = sorted(set(wanted) - available_cores())
        if missing or len(set(wanted)) != len(wanted):
            raise AssemblyError(
                f"cannot pin {len(wanted)} threads to cores {list(wanted)}",
                f"this process may use {sorted(available_cores())}",
                "give one distinct core for each thread",
            )
        if wanted != self._pinned:
            self.call(lambda: _pin_team(wanted))
            self._pinned = wanted


def available_cores() -> set[int]:
    """Cores of this process, also while the runner itself is pinned to one of them."""
    return os.sched_getaffinity(0)


def _pin_team(cores: tuple[int, ...]) -> None:
    _in_team(len(cores), lambda worker: os.sched_setaffinity(0, {cores[worker]}))


def team_thread_ids(threads: int) -> tuple[int, ...]:
    """The system's ids of the calling thread and of the workers it would open a region with now."""
    if threads == 1:
        return (threading.get_native_id(),)
    found: dict[int, int] = {}
    _in_team(threads, lambda worker: found.setdefault(worker, threading.get_native_id()))
    return tuple(found[worker] for worker in sorted(found))


def _in_team(threads: int, work: Callable[[int], object]) -> None:
    """``work(k)`` on worker k of the calling thread's team, all k."""
    gomp = ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def run_worker(_: int) -> None:
        work(gomp.omp_get_thread_num())

    gomp.GOMP_parallel(run_worker, None, threads, 0)


_shared: list[Runner] = []
_guard = threading.Lock()


# A forked child has no runner thread.  It starts its own, which owns a fresh team: the thread that
# forks never opened a parallel region, so libgomp has nothing stale there.
os.register_at_fork(after_in_child=_shared.clear)


def shared_runner() -> Runner:
    """The runner of this process; started at the first call."""
    with _guard:
        if not _shared:
            _shared.append(Runner())
        return _shared[0]
