"""Libraries and tools outside of Python, and the folders that we write to."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from autosched.doctor.finding import Finding, text_of
from autosched.runtime.linker import TOOLS
from codegen.file_cache import user_folder

_OPENMP: Final = "libgomp.so.1"
_PARANOID: Final = Path("/proc/sys/kernel/perf_event_paranoid")
_ALLOWED: Final = 2  # a process may count its own events in user mode


def openmp(load: Callable[[str], object] = ctypes.CDLL) -> Finding:
    """The OpenMP runtime; ``load``: opens a shared library by name, or raises OSError."""
    try:
        load(_OPENMP)
    except OSError as error:
        return Finding(
            "libgomp", "missing", str(error),
            "Debian, Ubuntu: apt-get install libgomp1; Fedora: dnf install libgomp; "
            "Alpine: apk add libgomp",
        )  # fmt: skip
    return Finding("libgomp", "ok", _OPENMP)


def linker(which: Callable[[str], str | None] = shutil.which) -> Finding:
    """What can link exported libraries; ``which``: finds a program by name."""
    found = [tool for tool in TOOLS if which(tool) is not None]
    if found:
        return Finding("linker", "ok", ", ".join(found))
    return Finding(
        "linker", "absent", f"none of {', '.join(TOOLS)}",
        "only export_library wants one, for the .so beside the .o: apt-get install binutils",
    )  # fmt: skip


def counters(file: Path = _PARANOID) -> Finding:
    """Whether ``profile --counters`` may count; ``file``: where the system says so."""
    text = text_of(file)
    try:
        level = int(text or "")
    except ValueError:
        return Finding(
            "counters", "absent", "the kernel has no perf_event_open",
            "only profile --counters wants it",
        )  # fmt: skip
    found = f"perf_event_paranoid is {level}"
    if level <= _ALLOWED:
        return Finding("counters", "ok", found)
    remedy = f"for profile --counters, as root: sysctl kernel.perf_event_paranoid={_ALLOWED}"
    return Finding("counters", "absent", found, remedy)


def folders() -> Finding:
    """Whether what is compiled and calibrated can be kept for this user."""
    try:
        folder = user_folder("")
    except RuntimeError as error:
        return _nothing_kept(str(error))
    # Whether there is a folder in one that may not be entered cannot be known: it is of no use.
    above = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    if os.access(above, os.W_OK | os.X_OK):
        return Finding("cache", "ok", str(folder))
    return _nothing_kept(f"{above} cannot be written to")


def _nothing_kept(why: str) -> Finding:
    return Finding(
        "cache", "advice", why,
        "calibration, compiled graphs and the key of saved modules are not kept: set HOME to a "
        "folder that this user owns",
    )  # fmt: skip
