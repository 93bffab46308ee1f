"""One measuring process a GPU: two would time each other."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from autosched.measure.errors import MeasureError

# A process that used a GPU takes a while to end: the driver gives back what it had.
_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.05


def lock_device(path: Path, patience_s: float = _PATIENCE_S) -> int:
    """Keep a lock on a file, made where it is missing, until this process ends.

    Args:
        path: of the file.
        patience_s: seconds to wait for a process that has it and may be about to end.

    Returns:
        The file descriptor, which must stay open.

    Raises:
        MeasureError: another process has it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    stop = time.monotonic() + patience_s
    while not _locked(descriptor):
        if time.monotonic() >= stop:
            os.close(descriptor)
            raise MeasureError(
                "another process of yours measures on this GPU",
                str(path),
                "wait until it is done: two would time each other",
            )
        time.sleep(_PAUSE_S)
    return descriptor


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
