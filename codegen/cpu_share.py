"""How many CPUs this process may keep busy: its affinity and the quotas of its control groups."""

from __future__ import annotations

import math
import os
from pathlib import Path

from codegen.control_groups import PROCESS, group_folders


def usable_cpus(process: Path = PROCESS) -> int:
    """CPUs that the calling thread may run on, but no more than its quotas pay for; at least 1.

    A quota of 2.5 CPUs gives 2 threads: a third one would use up the quota before the period ends,
    and then all of them are stopped until the next.

    Args:
        process: folder of the process in ``/proc``.
    """
    cpus = len(os.sched_getaffinity(0))
    return max(1, math.floor(min(cpus, cpu_quota(process))))


def cpu_quota(process: Path = PROCESS) -> float:
    """The smallest quota of the process's control groups and of those around them, in CPUs.

    Infinite where there is none, or where the system does not tell.
    """
    return min(map(_quota, group_folders("cpu", process)), default=math.inf)


def _quota(folder: Path) -> float:
    """CPUs that a group may use: ``cpu.max``, or ``cpu.cfs_quota_us`` over its period."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            words = " ".join((folder / name).read_text() for name in names).split()
            quota, period = float(words[0]), float(words[1])
        except (OSError, ValueError, IndexError):
            continue  # no such file, or "max"
        if quota > 0 and period > 0:
            return quota / period
    return math.inf
