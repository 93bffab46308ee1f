"""Telling exceptions of a signal handler from those of the code that it interrupted."""

from __future__ import annotations

import signal
import traceback


def raised_by_handler(error: BaseException) -> bool:
    """Whether a Python function that handles a signal now raised ``error``.

    Such an exception (a time limit, say) is for whoever set the handler, not for the code whose
    failures are expected and translated.
    """
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {getattr(handler, "__code__", None) for handler in handlers} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))
