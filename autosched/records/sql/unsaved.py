"""Records that a database did not take: they go to a file, since measuring them took minutes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosched.records.errors import RecordError
from autosched.records.log import RecordLog

if TYPE_CHECKING:
    from autosched.records.record import Record

UNSAVED: Final = "autosched-unsaved.jsonl"
"""The log, in the working directory, that takes them."""


def kept_aside(records: Sequence[Record], error: RecordError) -> RecordError:
    """``error``, which also says where the records are now; they may be nowhere."""
    log = RecordLog(Path.cwd() / UNSAVED)
    try:
        log.append(records)
    except RecordError:
        return error
    what = f"{error.what}; {len(records)} records are in {log.name} instead"
    add = f"autosched records import {UNSAVED} --into URL"
    return type(error)(what, error.where, "; then ".join(filter(None, (error.hint, add))))
