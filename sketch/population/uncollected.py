"""Work that makes many small objects and no circles of them, without the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

# Set once objects of others were found frozen: to count them is a walk over all of them.
_OTHERS_FREEZE = Event()


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection meanwhile, in the whole process.

    What is recorded of one sketch makes the collector look at everything that the process holds,
    again and again, which takes longer than the recording.  Objects are freed by their counts, and
    those that are left at the end count as old: else the collector would look at all of them at
    once.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not _OTHERS_FREEZE.is_set():  # nobody else's objects are thawed
            if gc.get_freeze_count():
                _OTHERS_FREEZE.set()
            else:
                gc.freeze()
                gc.unfreeze()
        gc.enable()
