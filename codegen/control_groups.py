"""The control groups (containers) that this process is in: where their limits are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

PROCESS: Final = Path("/proc/self")
"""The folder of this process."""


def group_folders(controller: str, process: Path = PROCESS) -> list[Path]:
    """Folders of the process's group and of those around it, as mounted; none where unknown.

    Args:
        controller: what is limited: "cpu" or "memory".
        process: folder of the process in ``/proc``.
    """
    try:
        groups = (process / "cgroup").read_text().splitlines()
        mounts = [_mount(line) for line in (process / "mountinfo").read_text().splitlines()]
    except OSError:
        return []
    return [
        folder
        for line in groups
        for mount in mounts
        if mount is not None
        for folder in _folders(line, mount, controller)
    ]


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


def _folders(line: str, mount: _Mount, controller: str) -> Iterator[Path]:
    """Folders of the group that a line of ``cgroup`` names and of all around it, as mounted."""
    number, _, rest = line.partition(":")
    controllers, _, name = rest.partition(":")
    if mount.version == 2:
        here = number == "0" and not controllers
    else:
        here = controller in controllers.split(",") and controller in mount.controllers
    if not here:
        return
    group = PurePosixPath(name)
    inside = group.is_relative_to(mount.root) and ".." not in group.parts
    folder = mount.point / group.relative_to(mount.root) if inside else mount.point
    yield folder
    while folder != mount.point:
        folder = folder.parent
        yield folder
