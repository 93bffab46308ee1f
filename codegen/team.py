"""A team of threads that computes parallel regions together with the thread that calls."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple

from codegen.llvm import team_layout as layout
from codegen.llvm.jit import load_regions
from sketch.errors import TargetError

_START: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_STOP: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_NAP_S: Final = 20e-6


class _Functions(NamedTuple):
    start: Any
    stop: Any


@cache
def team_functions() -> _Functions:
    """The native code of teams; compiled at the first call in a process."""
    library = load_regions()
    # Workers wait inside this code until the process ends, also while Python takes down modules.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    return _Functions(_START(library.address("team_start")), _STOP(library.address("team_stop")))


def _run_delay_s(thread: int) -> float:
    try:
        with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0


class Team:
    """``threads - 1`` native worker threads; the caller of a kernel is the first of the team.

    One caller at a time.  The workers end when the object is gone.  They are invisible to Python
    and take no signals.  In a forked child there are none: a region is then computed by its caller,
    with the same result.

    Attributes:
        threads: of the team, the caller among them.
        address: what kernels take as their team.
    """

    def __init__(self, threads: int, cores: Sequence[int] = ()) -> None:
        """``cores``: bind worker k to ``cores[k]``; the caller is left alone.  Without them workers
        run on all CPUs of the process (of its main thread).

        Raises:
            TargetError: no memory, or a core that this process may not use.
        """
        self.threads = threads
        self._held_back_s = 0.0
        self._caller = (caller := threading.get_native_id()), _run_delay_s(caller)
        self._stop = team_functions().stop
        self._home = ctypes.c_void_p()  # the last: ``__del__`` looks whether it is there
        # The address arrives in our memory within the call: nothing is lost if a signal comes now.
        status = team_functions().start(ctypes.addressof(self._home), threads)
        if status:
            raise TargetError(f"cannot start {threads} threads: {os.strerror(status)}")
        self.address = self._home.value or 0
        slept_at = self.address + layout.LEFT + layout.TIMES_SLEPT
        self._times_slept = ctypes.c_int32.from_address(slept_at)
        if cores:
            self._bind(cores)
        else:
            self._spread()

    def worker_ids(self) -> tuple[int, ...]:
        """The system's ids of the workers, which are fewer than asked for where it gave no more."""
        started = ctypes.c_int32.from_address(self.address + layout.STARTED).value
        return tuple(self._thread_id(worker) for worker in range(1, started + 1))

    def sleeps(self) -> int:
        """How often the caller went to sleep, waiting for workers."""
        return self._times_slept.value

    def held_back_s(self) -> float:
        """Seconds that workers wanted to run and had no CPU, all together, since this was last
        asked; 0 where the system does not count them.
        """
        before, self._held_back_s = self._held_back_s, sum(map(_run_delay_s, self.worker_ids()))
        return self._held_back_s - before

    def caller_held_back_s(self) -> float:
        """Seconds that this thread wanted to run and had no CPU since it last asked; 0 if another
        thread made the team or asked in between.
        """
        before, caller = self._caller, threading.get_native_id()
        self._caller = caller, _run_delay_s(caller)
        return self._caller[1] - before[1] if caller == before[0] else 0.0

    def _thread_id(self, worker: int) -> int:
        record = self.address + layout.RECORDS + worker * layout.LINE_BYTES
        place = record + layout.SYSTEM_ID
        while not (found := ctypes.c_int32.from_address(place).value):
            time.sleep(_NAP_S)
        return found

    def _bind(self, cores: Sequence[int]) -> None:
        for thread, core in zip(self.worker_ids(), cores[1:], strict=False):
            try:
                os.sched_setaffinity(thread, {core})
            except OSError as error:
                raise TargetError(f"cannot use core {core}: {error.strerror}") from error

    def _spread(self) -> None:
        """Workers run where the process may, not where the thread that made them was bound to."""
        with suppress(OSError):  # the CPUs of the process may change meanwhile
            everywhere = os.sched_getaffinity(os.getpid())
            if everywhere != os.sched_getaffinity(0):
                for thread in self.worker_ids():
                    os.sched_setaffinity(thread, everywhere)

    def __del__(self) -> None:
        home = getattr(self, "_home", None)
        if home is not None:
            self._stop(ctypes.addressof(home))
