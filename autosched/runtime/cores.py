"""Which cores this process and its calling thread may use."""

from __future__ import annotations

import os
from collections.abc import Sequence

from autosched.runtime.errors import AssemblyError


def available_cores() -> set[int]:
    """Cores that the calling thread may run on."""
    return os.sched_getaffinity(0)


def check_cores(cores: Sequence[int]) -> None:
    """Raise AssemblyError unless the cores are distinct and this process may use them."""
    missing = sorted(set(cores) - available_cores())
    if missing or len(set(cores)) != len(cores):
        raise AssemblyError(
            f"cannot pin {len(cores)} threads to cores {list(cores)}",
            f"this process may use {sorted(available_cores())}",
            "give one distinct core for each thread",
        )
