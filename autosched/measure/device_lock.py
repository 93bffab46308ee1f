"""One measuring process a GPU: two would time each other."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from autosched.measure.errors import MeasureError


def lock_device(path: Path) -> int:
    """Keep a lock on a file, made where it is missing, until this process ends.

    Returns:
        The file descriptor, which must stay open.

    Raises:
        MeasureError: another process has it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise MeasureError(
            "another process of yours measures on this GPU",
            str(path),
            "wait until it is done: two would time each other",
        ) from error
    return descriptor
