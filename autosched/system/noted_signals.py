"""Exceptions of signal handlers that Python may drop: they are kept, to be raised again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Final

_Handler = Callable[[int, FrameType | None], object]

# Those that ask a program to end: Ctrl-C, batch systems and containers, a closed terminal.
_NOTED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NotedSignals:
    """Calls the handlers of some signals, and keeps the last exception that one of them raised.

    While a destructor or a callback of the garbage collector runs, Python prints such an exception
    ("Exception ignored in") and goes on.  Long work asks ``check`` from time to time, and stops
    then as it would have stopped.
    """

    def __init__(self, handlers: Mapping[int, _Handler]) -> None:
        self._handlers = handlers
        self._raised: BaseException | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """What is set as the handler of every one of the signals."""
        try:
            self._handlers[number](number, frame)
        except BaseException as error:
            self._raised = error
            raise

    def check(self) -> None:
        """Raise what a handler raised, if one did: KeyboardInterrupt after Ctrl-C."""
        if self._raised is not None:
            raise self._raised

    def forget(self) -> None:
        """Let go of the exception, and of the frames that it holds."""
        self._raised = None


@contextmanager
def noted_signals() -> Iterator[NotedSignals]:
    """Exceptions of the handlers of SIGINT, SIGTERM and SIGHUP are kept inside the block.

    A block inside such a block has the same ones.  Signals that have no handler in Python stay as
    they are; so do all of them outside the main thread, which is the only one that runs handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield NotedSignals({})
        return
    found = {number: signal.getsignal(number) for number in _NOTED}
    for outer in (getattr(handler, "__self__", None) for handler in found.values()):
        if isinstance(outer, NotedSignals):
            yield outer
            return
    handlers: dict[int, _Handler] = {
        n: handler for n, handler in found.items() if callable(handler)
    }
    noted = NotedSignals(handlers)
    try:
        for number in handlers:
            signal.signal(number, noted.handle)
        yield noted
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) == noted.handle:  # nobody has set another one meanwhile
                signal.signal(number, handler)
        noted.forget()
