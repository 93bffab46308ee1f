"""A copy of a log that is about to be cut down."""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path
from typing import Final

from autosched.records.errors import RecordError

SUFFIX: Final = ".bak"


def backed_up(path: Path) -> Path:
    """A new file beside a log with all that the log has; it replaces no earlier one.

    ``log.jsonl.bak``, or ``log.jsonl.bak2`` where that is there.  It is the log's own file where
    the file system can give it two names: what is appended before the log is replaced is kept, too.

    Raises:
        RecordError: it cannot be written.
    """
    for number in count(1):
        backup = path.with_name(f"{path.name}{SUFFIX}{number if number > 1 else ''}")
        try:
            _twin(path, backup)
        except FileExistsError:
            continue
        except OSError as error:
            raise RecordError(
                f"no copy of the log can be kept: {error.strerror}", str(backup), "give -o FILE"
            ) from error
        return backup
    raise AssertionError("numbers do not end")


def _twin(path: Path, backup: Path) -> None:
    try:
        os.link(os.path.realpath(path), backup)
    except FileExistsError:
        raise
    except OSError:  # a file system without links, or another one than the log's
        with path.open("rb") as source, backup.open("xb") as copy:
            shutil.copyfileobj(source, copy)
