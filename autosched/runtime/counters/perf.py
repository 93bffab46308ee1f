"""Opening counters: one for each event and thread."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autosched.runtime.counters.events import Event

_SYSTEM_CALLS: Final = {"x86_64": 298, "aarch64": 241}
_CLOSE_ON_EXEC: Final = 8
_PARANOID: Final = Path("/proc/sys/kernel/perf_event_paranoid")

# Opens an event for a thread: a file, or minus the number of the error.
Opener = Callable[[Event, int], int]


@dataclass(frozen=True, slots=True)
class OpenCounters:
    """Running counters.

    Attributes:
        events: those that could be opened for every thread.
        files: descriptors, event by event, threads within.
        threads: number of threads.
        note: one line about what could not be opened, and why; empty when all was.
    """

    events: tuple[Event, ...]
    files: tuple[int, ...]
    threads: int
    note: str


def open_event(event: Event, thread: int) -> int:
    """Open a counter for a thread of this process."""
    number = _SYSTEM_CALLS.get(platform.machine())
    if number is None:
        return -errno.ENOSYS
    library = ctypes.CDLL(None, use_errno=True)
    attribute = ctypes.create_string_buffer(event.attribute())
    file = library.syscall(
        ctypes.c_long(number), attribute, ctypes.c_int(thread), ctypes.c_int(-1),
        ctypes.c_int(-1), ctypes.c_ulong(_CLOSE_ON_EXEC),
    )  # fmt: skip
    return int(file) if file >= 0 else -ctypes.get_errno()


@contextmanager
def counting(
    events: Sequence[Event], threads: Sequence[int], opener: Opener = open_event
) -> Iterator[OpenCounters]:
    """Count ``events`` in the threads with these ids until the block ends.

    The threads must be all that will work, or their future parents: a counter follows the threads
    that its own thread starts, but none that exist already.
    """
    opened: list[tuple[Event, tuple[int, ...]]] = []
    failures: dict[int, list[str]] = {}
    try:
        for event in events:
            files, error = _open_all(event, threads, opener)
            if error:
                failures.setdefault(error, []).append(event.name)
            else:
                opened.append((event, files))
        yield OpenCounters(
            tuple(event for event, _ in opened),
            tuple(file for _, files in opened for file in files),
            len(threads),
            _note(failures, nothing=not opened),
        )
    finally:
        for _, files in opened:
            _close(files)


def _open_all(event: Event, threads: Sequence[int], opener: Opener) -> tuple[tuple[int, ...], int]:
    """A file for each thread, or none and the number of the error."""
    files: list[int] = []
    for thread in threads:
        file = opener(event, thread)
        if file < 0:
            _close(files)
            return (), -file
        files.append(file)
    return tuple(files), 0


def _close(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)


def _note(failures: dict[int, list[str]], nothing: bool) -> str:
    if not failures:
        return ""
    reasons = [f"{', '.join(names)} ({_reason(error)})" for error, names in failures.items()]
    if nothing:
        return f"no hardware counters here: {'; '.join(_reason(error) for error in failures)}"
    return f"not counted here: {'; '.join(reasons)}"


def _reason(error: int) -> str:
    if error in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL):
        return "the processor or virtual machine has no such counters"
    if error in (errno.EACCES, errno.EPERM):
        return f"not permitted: perf_event_paranoid is {_paranoid()}, 2 or less is needed"
    if error == errno.ENOSYS:
        return "the kernel or a sandbox does not offer perf_event_open"
    return os.strerror(error)


def _paranoid() -> str:
    try:
        return _PARANOID.read_text().strip()
    except OSError:
        return "unknown"
