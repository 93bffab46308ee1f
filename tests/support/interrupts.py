"""Exceptions that arrive in the middle of a call, at a chosen delay."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

# Python drops what a handler raises inside a destructor: then another interrupt comes.
_AGAIN_S: Final = 1.0


class Interrupted(BaseException):
    """What the signal handler of ``interrupts`` raises."""


@contextmanager
def interrupts() -> Iterator[None]:
    """SIGALRM raises ``Interrupted`` inside the block, as Ctrl-C raises KeyboardInterrupt."""

    def raise_it(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, raise_it)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted(call: Callable[[], object], delay_s: float) -> bool:
    """Call ``call`` again and again until an interrupt ends it, ``delay_s`` from now.

    It comes at whatever instant the calls have reached by then, also between two of them.  Returns
    whether it came inside ``call``.
    """
    inside = False
    try:
        signal.setitimer(signal.ITIMER_REAL, max(delay_s, 1e-6), _AGAIN_S)
        while True:
            inside = True
            call()
            inside = False
    except Interrupted:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return inside
