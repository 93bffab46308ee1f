"""Exceptions at random instants: the call raises, and later calls are right."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

from campaign.faults.modules import Subject

_LONGEST_S: Final = 0.004


class Raised(Exception):
    """What the signal handler raises."""


def by_alarm(subject: Subject, rng: Random, count: int) -> str | None:
    """A handler of SIGALRM that raises, as timeouts of tests and workers do."""

    def handler(*_: object) -> None:
        raise Raised

    signal.signal(signal.SIGALRM, handler)

    def arm() -> None:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, _LONGEST_S))

    return _interrupted(subject, rng, count, arm, Raised)


def by_ctrl_c(subject: Subject, rng: Random, count: int) -> str | None:
    """SIGINT from another process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
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

    def arm() -> None:
        delay = rng.uniform(1e-5, _LONGEST_S)
        os.write(write, int(delay * 1e9).to_bytes(8, "little"))

    try:
        return _interrupted(subject, rng, count, arm, KeyboardInterrupt)
    finally:
        os.close(write)
        os.waitpid(helper, 0)


def _interrupted(
    subject: Subject, rng: Random, count: int, arm: Callable[[], None], raised: Any
) -> str | None:
    """``count`` interrupts of calls in a loop, and a call that must be right after each."""
    inputs = subject.inputs(1.0)
    calls: tuple[Callable[[], object], ...] = (
        lambda: subject.module.run(inputs),
        lambda: subject.module.benchmark(inputs),
    )
    for number in range(count):
        call = calls[rng.random() < 0.1]
        try:
            arm()
            while True:
                call()
        except raised:
            pass
        factor = 2.0 + number
        if not subject.right(factor):
            return f"after interrupt {number} a call returns another call's result"
    return None
