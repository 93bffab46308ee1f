"""Records of a task that logs of older schemas hold by name, by position as those of today are.

A candidate is the same candidate in both: what a later session found of it counts for what an older
one measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from autosched.records.record import Record, record_of

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec


@dataclass(frozen=True, slots=True)
class _Written:
    """How a sketch is recorded today.

    Attributes:
        steps: by position.
        names: of its decisions, in order, and how older records of it call each of them.
    """

    steps: tuple[Mapping[str, Any], ...]
    names: Mapping[str, str]


def by_position(task: TaskSpec, records: Iterable[Record]) -> list[Record]:
    """The records of ``task``, all by position; those that do not replay stay as they are."""
    known: dict[str, _Written | None] = {}
    found = []
    for record in records:
        if record.task == task.key:
            found.append(_rewritten(task, record, known) if record.by_name else record)
    return found


def steps_key(record: Record) -> str:
    """Equal for records of one task whose steps and decisions say the same in the same words.

    A name may look like a position, so it counts which of them the record has.
    """
    words = [record.by_name, str(record.names), list(record.steps), list(record.decisions)]
    return json.dumps([record.variant, *words], sort_keys=True)


def _rewritten(task: TaskSpec, record: Record, known: dict[str, _Written | None]) -> Record:
    """``record`` by position; ``known``: what was found for others of its task."""
    key = steps_key(record)
    if key not in known:
        known[key] = _written(task, record)
    if (written := known[key]) is None:
        return record
    values = {now: record.decisions[then] for now, then in written.names.items()}
    return replace(record, steps=written.steps, decisions=values, by_name=False, names=None)


def _written(task: TaskSpec, record: Record) -> _Written | None:
    """How the sketch of ``record`` is written; None where it makes none."""
    try:
        candidate = record.candidate(task.variant(record.variant).dag, task.target)
        then = dict(zip(candidate.values, record.decisions, strict=True))
        now = record_of(task.key, candidate, record.target, record.result)
        names = [then.pop(decision.id) for decision in candidate.sketch.decisions]
    except Exception:  # the boundary to what a log holds; who replays the record says why
        return None
    if then:  # a decision that the sketch does not have
        return None
    return _Written(now.steps, dict(zip(now.decisions, names, strict=True)))
