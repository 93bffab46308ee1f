"""Processes below a process, from /proc."""

from __future__ import annotations

import os
from pathlib import Path


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
