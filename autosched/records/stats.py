"""A log at a glance: trials, failures by cause, and the best time per task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from autosched.measure.result import Failure
from autosched.records.best import rank
from autosched.records.identity import identity
from autosched.records.record import Record
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class TaskStats:
    """One task on one target.

    Attributes:
        task: key of the task.
        target: the machine.
        trials: records, failures included.
        failures: how often each "stage: kind" occurred.
        best_s: estimated seconds of the fastest candidate, None without a success.
        variant: variant of the fastest candidate, empty without a success.
    """

    task: str
    target: Target
    trials: int
    failures: dict[str, int]
    best_s: float | None
    variant: str

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values; of the target, its instruction set and threads."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values.pop("target")
        return values | {"arch": self.target.arch, "threads": self.target.threads}


def stats(records: Iterable[Record]) -> tuple[TaskStats, ...]:
    """Statistics per (task, target), in the order of the log."""
    groups: dict[tuple[str, Target], list[Record]] = {}
    for record in records:
        groups.setdefault((record.task, identity(record.target)), []).append(record)
    return tuple(_stats_of(task, target, group) for (task, target), group in groups.items())


def _stats_of(task: str, target: Target, group: list[Record]) -> TaskStats:
    failed = [r.result for r in group if isinstance(r.result, Failure)]
    causes = Counter(f"{failure.stage}: {failure.kind}" for failure in failed)
    ranked = rank(group)
    best_s, variant = (ranked[0][0], ranked[0][1].variant) if ranked else (None, "")
    return TaskStats(task, target, len(group), dict(causes), best_s, variant)
