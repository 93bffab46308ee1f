"""Threads that each borrow a child process for one request at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

from autosched.measure.child import Child, again_when_killed
from autosched.measure.errors import MeasureError
from autosched.measure.zygote import Zygote

_Answer = TypeVar("_Answer")
Borrow = Callable[[Callable[[Child], Any]], Any]
"""``borrow(request)`` is ``request(child)`` with a child that is idle."""


class ChildPool:
    """Children of one role, and what they are asked.

    Args:
        zygote: forks them, when the first requests come.
        role: see ``zygote_main.ROLES``.
        setup: for the role.
        count: of children.
    """

    def __init__(self, zygote: Zygote, role: str, setup: Any, count: int) -> None:
        self._idle: SimpleQueue[Child] = SimpleQueue()
        for _ in range(count):
            self._idle.put(Child(zygote, role, setup))
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=f"autosched-{role}")

    def submit(self, ask: Callable[[Borrow], _Answer]) -> Future[_Answer]:
        """Start ``ask(borrow)`` in a thread; see ``Borrow``."""
        return self._threads.submit(ask, self._borrow)

    def work(self, function: str, payload: bytes, limit_s: float) -> Future[bytes | None]:
        """Start whatever a function makes of bytes; None where it fails, or no child is to be had.

        Args:
            function: see ``function_reference``.
            payload: for it.
            limit_s: of one request, in seconds.
        """
        return self._threads.submit(self._work, function, payload, limit_s)

    def _work(self, function: str, payload: bytes, limit_s: float) -> bytes | None:
        try:
            return self._borrow(
                lambda child: child.call("work", function, payload, timeout_s=limit_s)
            )
        except MeasureError:
            return None

    def _borrow(self, request: Callable[[Child], _Answer]) -> _Answer:
        """What a child that is idle answers; waits for one.  Asks again if it is killed."""
        child = self._idle.get()
        try:
            return again_when_killed(lambda: request(child))
        finally:
            self._idle.put(child)

    def cancel(self) -> None:
        """Drop what waits for a child."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait for what is being done, and let go of the children that the zygote ended with it.

        What is being done fails at once where the zygote was closed.
        """
        self._threads.shutdown(wait=True)
        while not self._idle.empty():
            self._idle.get().close()
