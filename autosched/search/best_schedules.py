"""The best schedules that a release knows: what searches of other networks ended with.

The file is a log of records, one a task and machine, as ``python -m benchmarks.best_schedules``
writes it.
"""

from __future__ import annotations

import gzip
import zlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosched.records.reading import parse_lines
from autosched.system.user_warnings import notify

if TYPE_CHECKING:
    from autosched.records.record import Record

SHIPPED: Final = Path(__file__).with_name("best_schedules.jsonl.gz")


@lru_cache(1)
def best_schedules() -> tuple[Record, ...]:
    """Records of many tasks, of machines that may be others than this one.

    None of a damaged file, of which a warning tells.
    """
    if not SHIPPED.exists():
        return ()
    try:
        lines = gzip.decompress(SHIPPED.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        notify([f"{SHIPPED}: no schedules can be read: {error}; install the release again"])
        return ()
    return parse_lines(lines, SHIPPED.name).records
