"""Which records say the same: what was imported or joined twice."""

from __future__ import annotations

import json
from collections.abc import Iterable

from autosched.records.record import Record, to_json


def unique(records: Iterable[Record]) -> tuple[Record, ...]:
    """Records without exact repetitions, in order of first appearance."""
    seen: dict[str, Record] = {}
    for record in records:
        seen.setdefault(whole_text(record), record)
    return tuple(seen.values())


def whole_text(record: Record) -> str:
    """All that a record says; equal only for repetitions of it."""
    return json.dumps(to_json(record), sort_keys=True)
