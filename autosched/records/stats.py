"""A log at a glance: trials, failures by cause, and the best time per task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from autosched.measure.result import Failure
from autosched.records.best import comparable, rank
from autosched.records.identity import identity
from autosched.records.record import Record
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class TaskStats:
    """One task on one target.

    Attributes:
        task: key of the task.
        target: the machine.
        trials: measured candidates, failures included; one that was timed again counts once.
        failures: how often each "stage: kind" occurred.
        best_s: estimated seconds of the fastest candidate, in the cache state that most were
            timed in; None without a success.
        variant: variant of the fastest candidate, empty without a success.
        title: what the task is called; None where the log does not say.
        gflops: speed of the fastest candidate, None without a success or a title.
        best_trial: the trial that found it, from 1; None without a success.
    """

    task: str
    target: Target
    trials: int
    failures: dict[str, int]
    best_s: float | None
    variant: str
    title: str | None = None
    gflops: float | None = None
    best_trial: int | None = None

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
    # times of one cache state compare; failures are in every group
    main = max(comparable(group).values(), key=len)
    ranked = rank(main)
    title = next((r.title for r in group if r.title is not None), None)
    text = None if title is None else title.text
    trials = len({record.candidate_key for record in group})
    if not ranked:
        return TaskStats(task, target, trials, dict(causes), None, "", text)
    best_s, best = ranked[0]
    gflops = None if title is None else title.flops / best_s / 1e9
    number = trial_number(best, group)
    return TaskStats(task, target, trials, dict(causes), best_s, best.variant, text, gflops, number)


def trial_number(record: Record, group: Sequence[Record]) -> int:
    """Which trial measured the candidate of ``record`` first, from 1.

    Logs of older schemas do not say: their trials are counted in ``group``.
    """
    mine = [r.trial for r in group if r.candidate_key == record.candidate_key and r.trial]
    if mine:
        return mine[0]
    keys = dict.fromkeys(other.candidate_key for other in group)
    return list(keys).index(record.candidate_key) + 1
