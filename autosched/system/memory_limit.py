"""Whether something still fits the memory of this machine, and a clear error when it does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sketch.errors import AutoschedError

_MEMINFO: Final = Path("/proc/meminfo")
# What is smaller is not worth reading a file for.
_LARGE_BYTES: Final = 1 << 28
_HINT: Final = "choose smaller shapes, or a machine with more memory"
_FIELDS: Final = ("MemAvailable", "SwapFree")


class OutOfMemoryError(AutoschedError):
    """An array does not fit the memory of this machine."""


def available_bytes() -> int | None:
    """What may still be allocated and used, in bytes; None where the system does not say."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    if any(field not in found for field in _FIELDS):
        return None
    return sum(int(found[field].split()[0]) << 10 for field in _FIELDS)


def check_room(what: str, size_bytes: int, hint: str = "") -> None:
    """Raise OutOfMemoryError when ``size_bytes`` are more than there is.

    Linux hands out more memory than there is, and ends the process that makes use of it.
    """
    available = available_bytes() if size_bytes >= _LARGE_BYTES else None
    if available is not None and size_bytes > available:
        raise OutOfMemoryError(
            f"{size_bytes:,} bytes are needed, {available:,} are available", what, hint or _HINT
        )


@contextmanager
def room_for(what: str, size_bytes: int, hint: str = "") -> Iterator[None]:
    """Allocate ``size_bytes`` inside the block.

    Raises:
        OutOfMemoryError: that is more than there is, or an allocation in the block failed.
    """
    check_room(what, size_bytes, hint)
    try:
        yield
    except MemoryError as error:
        raise OutOfMemoryError(
            f"cannot allocate {size_bytes:,} bytes", what, hint or _HINT
        ) from error


@contextmanager
def enough_memory(what: str) -> Iterator[None]:
    """Turn a failed allocation inside the block into an error of ours.

    Raises:
        OutOfMemoryError: an allocation failed.
    """
    try:
        yield
    except MemoryError as error:
        raise OutOfMemoryError(
            f"memory ran out: {error or 'an allocation failed'}",
            what,
            _HINT,
        ) from error
