"""Files of models and data: replaced as a whole, so that an error leaves the old one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from costmodel.errors import CostModelError


def write_model(path: Path, content: str | bytes) -> None:
    """Write a model.

    Raises:
        CostModelError: it cannot be written; what was there stays.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        with written_whole(path) as partial:
            partial.write_bytes(data)
    except OSError as error:
        raise CostModelError(f"the model cannot be written: {error.strerror}", str(path)) from error


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to, whose file takes the place of ``path`` when the block succeeds.

    Of a link the file is replaced that it leads to, with its permissions; devices and pipes are
    written to.

    Raises:
        OSError: it cannot be replaced.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    file = Path(os.path.realpath(path))
    partial = file.with_name(f".part{secrets.token_hex(8)}")
    try:
        yield partial
        with suppress(OSError):  # there is none yet
            partial.chmod(stat.S_IMODE(file.stat().st_mode))
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
