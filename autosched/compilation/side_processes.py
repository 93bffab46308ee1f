"""Processes beside this one that draft the schedules of a network and make code of them."""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import Future
from typing import Final

from autosched.measure.child_pool import ChildPool
from autosched.measure.zygote import Zygote
from codegen.closeable import Closeable
from codegen.cpu_share import usable_cpus

# Their start takes half a second of a CPU, and so does the first task of each.
_WORTH_S: Final = 1.5
# One of them may take so long for one task.
_LIMIT_S: Final = 120.0


class SideProcesses(Closeable):
    """As many as there are CPUs, started when there is work for them; a context manager.

    What they do not get to is to be done by who asked.
    """

    def __init__(self) -> None:
        # The executable of a frozen program is no interpreter: it would start the program again.
        self._count = 1 if getattr(sys, "frozen", False) else usable_cpus()
        # Where it dies, this process does the rest sooner than another one starts and dies.
        self._zygote = Zygote(once=True)
        self._children: ChildPool | None = None

    def worth(self, seconds: float) -> bool:
        """Whether what takes this process so long is sooner done with them."""
        return self._children is not None or (self._count > 1 and seconds > _WORTH_S)

    def begin(self, function: str, request: object) -> Future[bytes | None]:
        """Start what a function makes of a request, pickled; they are begun in their order.

        What cannot be sent, or there are no threads for, is answered by None at once.

        Args:
            function: see ``measure.function_reference``.
            request: for it.
        """
        try:
            if self._children is None:
                self._zygote.begin()
                self._children = ChildPool(self._zygote, "work", None, self._count)
            payload = pickle.dumps(request, pickle.HIGHEST_PROTOCOL)
            return self._children.work(function, payload, _LIMIT_S)
        except Exception:  # the boundary: who asked does it
            return _nothing()

    def close(self) -> None:
        """End all processes; a second call does nothing."""
        if self._children is not None:
            self._children.cancel()
        self._zygote.close()
        if self._children is not None:
            self._children.join()


def _nothing() -> Future[bytes | None]:
    """An answer that is there: None."""
    found: Future[bytes | None] = Future()
    found.set_result(None)
    return found


def answer_of(coming: Future[bytes | None] | None) -> bytes | None:
    """What one of them found; None: none has begun, and none will any more, or it failed."""
    if coming is None or coming.cancel():
        return None
    return coming.result()
