"""A word about what takes long: nobody should wonder whether a command hangs."""

from __future__ import annotations

import sys
import threading
import time
from typing import Final, Self, TextIO

from autosched.report.events import Progress, ProgressSnapshot
from autosched.system.streams import is_terminal, print_line
from codegen.closeable import Closeable

PATIENCE_S: Final = 2.0
_TERMINAL_EVERY_S: Final = 1.0
_LINE_EVERY_S: Final = 30.0


class Waiting(Closeable):
    """Tells on stderr that something is still going on: a context manager.

    On a terminal a line that counts the seconds and is wiped at the end; elsewhere a line now and
    then.

    Args:
        what: is going on.
        quiet: tell nobody.
        stream: where to; None: stderr.
        patience_s: nothing is said before.
    """

    def __init__(
        self,
        what: str,
        quiet: bool = False,
        stream: TextIO | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._what, self._patience_s = what, patience_s
        self._out = sys.stderr if stream is None else stream
        self._ended, self._step = threading.Event(), ""
        self._teller = None if quiet else threading.Thread(target=self._tell, daemon=True)

    def tell(self, step: str) -> None:
        """What is going on from now on: a line of its own, unless a terminal counts seconds."""
        self._step = f", {step}"
        if self._teller is not None and not is_terminal(self._out):
            print_line(f"{self._what}{self._step}", self._out)

    def close(self) -> None:
        """It is over; a second call does nothing."""
        self._ended.set()
        if self._teller is not None:
            self._teller.join()

    def __enter__(self) -> Self:
        if self._teller is not None:
            self._teller.start()
        return self

    def _tell(self) -> None:
        began, terminal = time.monotonic(), is_terminal(self._out)
        start, end = ("\r", "") if terminal else ("", "\n")
        wait_s, text = self._patience_s, ""
        while not self._ended.wait(wait_s):
            elapsed_s = time.monotonic() - began
            # As wide as the line that it replaces.
            text = f"{self._what}{self._step}: {elapsed_s:.0f} s".ljust(len(text) * terminal)
            print_line(f"{start}{text}", self._out, end)
            wait_s = _TERMINAL_EVERY_S if terminal else _LINE_EVERY_S
        if terminal and text:
            print_line(f"\r{' ' * len(text)}\r", self._out, "")


class ProgressAfter:
    """A progress whose start ends a wait."""

    def __init__(self, wait: Waiting, shown: Progress) -> None:
        self._wait, self._shown = wait, shown

    def start(self, view: ProgressSnapshot) -> None:
        """The wait is over."""
        self._wait.close()
        self._shown.start(view)

    def update(self, view: ProgressSnapshot) -> None:
        """Passed on."""
        self._shown.update(view)

    def message(self, text: str) -> None:
        """Passed on."""
        self._shown.message(text)

    def finish(self, view: ProgressSnapshot) -> None:
        """Passed on."""
        self._shown.finish(view)
