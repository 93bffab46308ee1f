"""What a handler raises is kept for as long as a block lasts; handlers are restored."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from autosched.system.noted_signals import noted_signals


class Ended(Exception):
    """What a handler of the user's raises."""


@pytest.fixture
def own_handler() -> Iterator[object]:
    def handler(*_: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGHUP, handler)
    yield handler
    signal.signal(signal.SIGHUP, before)


def test_an_exception_that_was_dropped_comes_again(own_handler: object) -> None:
    with noted_signals() as signals:
        signals.check()
        with suppress(Ended):
            signal.raise_signal(signal.SIGHUP)
        with pytest.raises(Ended):
            signals.check()
    assert signal.getsignal(signal.SIGHUP) is own_handler
    signals.check()
    with noted_signals() as others:
        others.check()


def test_an_inner_block_knows_of_what_came_before_it(own_handler: object) -> None:
    with noted_signals() as outer:
        with suppress(Ended):
            signal.raise_signal(signal.SIGHUP)
        with noted_signals() as inner:
            assert inner is outer
        with pytest.raises(Ended):
            outer.check()
    assert signal.getsignal(signal.SIGHUP) is own_handler


def test_handlers_that_are_set_or_missing_inside_a_block_stay() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with noted_signals() as signals:
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            interrupt = signal.signal(signal.SIGINT, lambda *_: None)
            assert interrupt == signals.handle
        assert signal.getsignal(signal.SIGINT) != interrupt
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_other_threads_leave_handlers_alone() -> None:
    found = []

    def look() -> None:
        with noted_signals() as signals:
            signals.check()
            found.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [before]
