"""The best schedules that a release knows: what searches of other networks ended with.

The file is a log of records, one a task and machine, as ``python -m benchmarks.best_schedules``
writes it.
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosched.records.reading import parse_lines

if TYPE_CHECKING:
    from autosched.records.record import Record

SHIPPED: Final = Path(__file__).with_name("best_schedules.jsonl.gz")


@lru_cache(1)
def best_schedules() -> tuple[Record, ...]:
    """Records of many tasks, of machines that may be others than this one."""
    if not SHIPPED.exists():
        return ()
    return parse_lines(gzip.decompress(SHIPPED.read_bytes()), SHIPPED.name).records
