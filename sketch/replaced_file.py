"""Files that are replaced as a whole: a reader never sees half of one, an error leaves the old.

It is here, below everything, because models, data and logs are all written so.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to; it takes the place of ``path`` when the block succeeds.

    Of a link the file is replaced that it leads to.  The new file has the permissions of the old.

    Raises:
        OSError: ``path`` is a folder, a device or a pipe, or names no file, or the replacement
            fails.
    """
    _check_name(path)
    file = _behind_links(path)
    # A name of its own for each writer: threads may save to one path at the same time.  Short,
    # because that of ``path`` may be as long as the system allows.
    partial = file.with_name(f".part{secrets.token_hex(8)}")
    try:
        yield partial
        with suppress(OSError):  # there is none yet, or the file system has no permissions
            partial.chmod(stat.S_IMODE(file.stat().st_mode))
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_output(path: Path) -> Iterator[Path]:
    """Where to write what a user wants at ``path``, whatever is there: see ``replaced_file``.

    Devices and pipes are written to, and so is a file in a folder that takes no other.

    Raises:
        OSError: ``path`` is a folder, or names no file, or cannot be written.
    """
    _check_possible(path)
    folder = _behind_links(path).parent
    closed = folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK)
    if path.exists() and (closed or not path.is_file()):
        yield path
        return
    with replaced_file(path) as partial:
        yield partial


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Nobody else is inside such a block with a file of the same folder.

    Raises:
        OSError: the folder cannot be opened.
    """
    folder = os.open(_behind_links(path).parent, os.O_RDONLY | os.O_CLOEXEC)
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
    with tempfile.TemporaryFile(dir=_behind_links(path).parent):
        pass


def _behind_links(path: Path) -> Path:
    """The file that links lead to, whether it is there or not."""
    return Path(os.path.realpath(path))


def _check_possible(path: Path) -> None:
    if not _is_possible(path):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), ascii(str(path)))


def _check_name(path: Path) -> None:
    _check_possible(path)
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
