"""Processes below a process, and who ends with whom: Linux."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Final

_DIE_WITH_PARENT: Final = 1  # numbers of prctl
_ADOPT_ORPHANS: Final = 36


def adopt_orphans() -> None:
    """What this process's children leave behind becomes its own child."""
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)


def die_with_parent() -> None:
    """This process is killed when the thread that forked it ends."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def children(pid: int) -> list[int]:
    """The direct children of all threads of a process; none where it is gone."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii")
            found += [int(child) for child in text.split()]
    except OSError:
        return []
    return found


def descendants(pid: int) -> list[int]:
    """All processes below a process, the nearest first."""
    found = children(pid)
    for child in found:  # grows while it is walked
        found += children(child)
    return found
