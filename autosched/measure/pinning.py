"""Which CPUs the threads of a measured kernel run on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_SYSFS: Final = Path("/sys/devices/system/cpu")


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """CPU numbers of the kernel's list format, ``0-2,8`` -> (0, 1, 2, 8)."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        cpus.extend(range(int(low), int(high or low) + 1))
    return tuple(cpus)


def siblings(cpu: int) -> tuple[int, ...]:
    """The CPUs that share a core with one, itself included; itself alone where nobody tells."""
    try:
        return parse_cpu_list((_SYSFS / f"cpu{cpu}/topology/thread_siblings_list").read_text())
    except (OSError, ValueError):
        return (cpu,)


def cores_first(cpus: Sequence[int]) -> tuple[int, ...]:
    """``cpus`` reordered: one hardware thread of every core, then the second ones, and so on."""
    rank = {cpu: sum(other < cpu for other in siblings(cpu) if other in cpus) for cpu in cpus}
    return tuple(sorted(cpus, key=lambda cpu: (rank[cpu], cpu)))


def allowed_cpus() -> tuple[int, ...]:
    """The CPUs this process may run on, in the order in which threads should take them."""
    return cores_first(sorted(os.sched_getaffinity(0)))
