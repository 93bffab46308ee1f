"""Which cores this process and its calling thread may use."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Final

from autosched.runtime.errors import AssemblyError


def _current_core() -> Callable[[], int]:
    """The C library's ``sched_getcpu``, which is no system call; -1 where there is none."""
    try:
        found = ctypes.PyDLL(None).sched_getcpu
    except (OSError, AttributeError):
        return lambda: -1
    found.restype, found.argtypes = ctypes.c_int, ()
    return found


current_core: Final = _current_core()
"""The core that the calling thread runs on right now; -1: the system does not say."""


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
