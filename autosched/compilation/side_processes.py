"""Processes beside this one that draft the schedules of a network and make code of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final

from autosched.measure.child_pool import ChildPool
from autosched.measure.zygote import Zygote
from codegen.closeable import Closeable
from codegen.cpu_share import usable_cpus

# Tasks from which on processes are worth their start, which takes as long as some of these.
_LEAST_TASKS: Final = 8
# One of them may take so long for one task.
_LIMIT_S: Final = 120.0


class SideProcesses(Closeable):
    """A context manager.  What they do not get to is to be done by who asked."""

    def __init__(self, count: int) -> None:
        """``count``: of processes."""
        self._zygote = Zygote()
        self._zygote.begin()
        self._children = ChildPool(self._zygote, "work", None, count)

    def begin(self, function: str, payload: bytes) -> Future[bytes | None]:
        """Start what a function makes of bytes; requests are begun in their order.

        Args:
            function: see ``measure.function_reference``.
            payload: for it.
        """
        return self._children.work(function, payload, _LIMIT_S)

    def close(self) -> None:
        """End all processes; a second call does nothing."""
        self._children.cancel()
        self._zygote.close()
        self._children.join()


@contextmanager
def side_processes_for(tasks: int) -> Iterator[SideProcesses | None]:
    """Processes to compile so many tasks with; None where those would not be done any sooner."""
    cpus = usable_cpus()
    if cpus < 2 or tasks < _LEAST_TASKS:
        yield None
        return
    with SideProcesses(min(cpus, tasks // 2)) as processes:
        yield processes


def answer_of(coming: Future[bytes | None] | None) -> bytes | None:
    """What one of them found; None: none has begun, and none will any more, or it failed."""
    if coming is None or coming.cancel():
        return None
    return coming.result()
