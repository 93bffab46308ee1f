"""Signals that ask a command to end: it ends as after Ctrl-C, and says so in its exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Final

from autosched.cli.exit_codes import SIGNALLED
from autosched.system.noted_signals import NotedSignals, noted_signals

# What batch systems and containers send, and what a terminal sends that is closed.
_ASKING: Final = (signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Ending:
    """Why a command ends early.

    Attributes:
        signal: the last one that asked for it; SIGINT until another one did.
        asked: whether one of the others did.
        noted: raises again what a handler raised and Python dropped.
    """

    noted: NotedSignals
    signal: signal.Signals = signal.SIGINT
    asked: bool = False

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
        return SIGNALLED + self.signal

    def __str__(self) -> str:
        return f"ended by {self.signal.name}" if self.asked else "interrupted"


@contextmanager
def ending_on_signals() -> Iterator[Ending]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt inside the block.

    Signals that are ignored (``nohup``) or handled by somebody else stay so; so do all of them
    outside the main thread, which is the only one that may set handlers.
    """
    ending = Ending(NotedSignals({}))

    def end(number: int, frame: FrameType | None) -> None:
        ending.signal, ending.asked = signal.Signals(number), True
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    taken = [s for s in _ASKING if in_main and signal.getsignal(s) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        with noted_signals() as ending.noted:
            yield ending
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def say_ending(ending: Ending) -> None:
    """A line on stderr, if that is still there: a closed terminal takes no more."""
    with suppress(OSError):
        print(f"autosched: {ending}", file=sys.stderr)


def drop_output() -> None:
    """Nobody reads stdout any more: the interpreter must not flush into it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
