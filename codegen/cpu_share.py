"""How many CPUs this process may keep busy: its affinity and the quotas of its control groups."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

_PROCESS: Final = Path("/proc/self")


def usable_cpus(process: Path = _PROCESS) -> int:
    """CPUs that the calling thread may run on, but no more than its quotas pay for; at least 1.

    A quota of 2.5 CPUs gives 2 threads: a third one would use up the quota before the period ends,
    and then all of them are stopped until the next.

    Args:
        process: folder of the process in ``/proc``.
    """
    cpus = len(os.sched_getaffinity(0))
    return max(1, math.floor(min(cpus, cpu_quota(process))))


def cpu_quota(process: Path = _PROCESS) -> float:
    """The smallest quota of the process's control groups and of those around them, in CPUs.

    Infinite where there is none, or where the system does not tell.
    """
    try:
        groups = (process / "cgroup").read_text().splitlines()
        mounts = [_mount(line) for line in (process / "mountinfo").read_text().splitlines()]
    except OSError:
        return math.inf
    quotas = [
        _quota(folder)
        for line in groups
        for mount in mounts
        if mount is not None
        for folder in _folders(line, mount)
    ]
    return min(quotas, default=math.inf)


@dataclass(frozen=True, slots=True)
class _Mount:
    """A mounted hierarchy of control groups: its topmost group, and where that lies."""

    version: int
    controllers: frozenset[str]
    root: PurePosixPath
    point: Path


def _mount(line: str) -> _Mount | None:
    """A line of ``mountinfo``, where it is about control groups."""
    left, _, right = line.partition(" - ")
    fields, kind = left.split(" "), right.split(" ")
    if len(fields) < 5 or kind[0] not in ("cgroup", "cgroup2"):
        return None
    root, point = (field.encode().decode("unicode_escape") for field in fields[3:5])
    options = frozenset(kind[-1].split(","))
    return _Mount(2 if kind[0] == "cgroup2" else 1, options, PurePosixPath(root), Path(point))


def _folders(line: str, mount: _Mount) -> Iterator[Path]:
    """Folders of the group that a line of ``cgroup`` names and of all around it, as mounted."""
    number, _, rest = line.partition(":")
    controllers, _, name = rest.partition(":")
    if mount.version == 2:
        here = number == "0" and not controllers
    else:
        here = "cpu" in controllers.split(",") and "cpu" in mount.controllers
    if not here:
        return
    group = PurePosixPath(name)
    inside = group.is_relative_to(mount.root) and ".." not in group.parts
    folder = mount.point / group.relative_to(mount.root) if inside else mount.point
    yield folder
    while folder != mount.point:
        folder = folder.parent
        yield folder


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
