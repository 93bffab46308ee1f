"""Exceptions at random instants: the call raises, and later calls are right."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from random import Random
from typing import Final

from campaign.faults.modules import Subject

_LONGEST_S: Final = 0.004
Send = Callable[[], None]


class Raised(Exception):
    """What the signal handler raises."""


class _Interrupt:
    """The handler of a signal; it knows whether the signal that was asked for has come.

    Python drops an exception that is raised while a destructor or a callback of the garbage
    collector runs, so that the call goes on: then another signal is asked for.
    """

    def __init__(self, signal_number: int, error: type[BaseException], send: Send) -> None:
        self.error = error
        self._send = send
        self._came = True
        signal.signal(signal_number, self._raise)

    def ask_if_none_is_due(self) -> None:
        """Ask for a signal at a random instant, unless one is still to come."""
        if self._came:
            self._came = False
            self._send()

    def _raise(self, *_: object) -> None:
        self._came = True
        raise self.error


def by_alarm(subject: Subject, rng: Random, count: int) -> str | None:
    """A handler of SIGALRM that raises, as timeouts of tests and workers do."""

    def send() -> None:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, _LONGEST_S))

    return _interrupted(subject, rng, count, _Interrupt(signal.SIGALRM, Raised, send))


def by_ctrl_c(subject: Subject, rng: Random, count: int) -> str | None:
    """SIGINT from another process."""
    read, write = os.pipe()
    parent = os.getpid()
    helper = os.fork()
    if helper == 0:
        os.close(write)
        while wish := os.read(read, 8):
            time.sleep(int.from_bytes(wish, "little") * 1e-9)
            os.kill(parent, signal.SIGINT)
        os._exit(0)
    os.close(read)

    def send() -> None:
        delay = rng.uniform(1e-5, _LONGEST_S)
        os.write(write, int(delay * 1e9).to_bytes(8, "little"))

    try:
        interrupt = _Interrupt(signal.SIGINT, KeyboardInterrupt, send)
        return _interrupted(subject, rng, count, interrupt)
    finally:
        os.close(write)
        os.waitpid(helper, 0)


def _interrupted(subject: Subject, rng: Random, count: int, interrupt: _Interrupt) -> str | None:
    """``count`` interrupts of calls in a loop, and a call that must be right after each."""
    inputs = subject.inputs(1.0)
    calls: tuple[Callable[[], object], ...] = (
        lambda: subject.module.run(inputs),
        lambda: subject.module.benchmark(inputs),
    )
    for number in range(count):
        call = calls[rng.random() < 0.1]
        try:
            while True:
                interrupt.ask_if_none_is_due()
                call()
        except interrupt.error:
            pass
        factor = 2.0 + number
        if not subject.right(factor):
            return f"after interrupt {number} a call returns another call's result"
    return None
