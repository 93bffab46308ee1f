"""Files that are replaced as a whole: a reader never sees half of one, an error leaves the old."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to; it takes the place of ``path`` when the block succeeds.

    Raises:
        OSError: ``path`` is a folder or names no file, or the replacement fails.
    """
    if path.is_dir() or not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    # A name of its own for each writer: threads may save to one path at the same time.
    partial = path.with_name(f"{path.name}.part{secrets.token_hex(8)}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
