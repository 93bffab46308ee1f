"""Files that are replaced as a whole: a reader never sees half of one, an error leaves the old."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to; it takes the place of ``path`` when the block succeeds.

    Raises:
        OSError: ``path`` is a folder, a device or a pipe, or names no file, or the replacement
            fails.
    """
    _check_name(path)
    # A name of its own for each writer: threads may save to one path at the same time.  Short,
    # because that of ``path`` may be as long as the system allows.
    partial = path.with_name(f".part{secrets.token_hex(8)}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Nobody else is inside such a block with a file of the same folder.

    Raises:
        OSError: the folder cannot be opened.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def file_state(path: Path) -> str:
    """Equal as long as nobody replaces the file; "" where there is none."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def check_replaceable(path: Path) -> None:
    """Raise OSError where ``replaced_file`` would: better before the work than after it."""
    _check_name(path)
    with tempfile.TemporaryFile(dir=path.parent):
        pass


def _check_name(path: Path) -> None:
    if not _is_possible(path):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), ascii(str(path)))
    if path.is_dir() or not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():  # a user that may do it would replace /dev/null
        raise OSError(errno.EINVAL, "a device or a pipe is no file to replace", str(path))


def _is_possible(path: Path) -> bool:
    """Whether the system takes this as a name."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeError:
        return False
