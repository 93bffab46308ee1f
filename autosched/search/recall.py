"""From a log back to candidates: what a task already knows, and its best."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from autosched.measure.protocol import Candidate
from autosched.measure.result import WRONG_RESULT, CacheState, Failure, MeasureResult
from autosched.notices import notify
from autosched.records.best import rank, seeds, select
from autosched.records.log import RecordLog
from autosched.records.record import Record
from sketch.errors import AutoschedError
from sketch.population import from_rows
from sketch.sketch import Sketch

if TYPE_CHECKING:
    from autosched.task import Task


@dataclass(frozen=True, slots=True)
class Recalled:
    """A candidate of a log.

    Attributes:
        candidate: replayed from the record's own steps.
        seconds: estimate from all its records; infinite where it failed.
        record: the record it comes from.
    """

    candidate: Candidate
    seconds: float
    record: Record


@dataclass(frozen=True, slots=True)
class Memory:
    """What a log says of one task.

    Attributes:
        candidates, results: the trials, one result each, in the order of the log; a candidate that
            was found to be wrong later has that failure.
        best_s: best estimate, re-measurements included; infinite without a success.
        seeds: good candidates of other machines.
        warnings: records that do not replay any more, and why.
    """

    candidates: tuple[Candidate, ...]
    results: tuple[MeasureResult, ...]
    best_s: float
    seeds: tuple[Candidate, ...]
    warnings: tuple[str, ...]


class Replayer:
    """Replays records of one task; equal steps give one and the same sketch object."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._sketches: dict[str, Sketch] = {}
        self.warnings: dict[str, int] = {}

    def replay(self, record: Record) -> Candidate | None:
        """The candidate, or None (and a warning) when it does not fit this release's task."""
        try:
            return self._replay(record)
        except AutoschedError as error:
            self.warnings[str(error)] = self.warnings.get(str(error), 0) + 1
            return None

    def _replay(self, record: Record) -> Candidate:
        key = json.dumps([record.variant, list(record.steps)], sort_keys=True)
        if key not in self._sketches:
            dag = self._task.variant(record.variant).dag
            self._sketches[key] = record.candidate(dag, self._task.target).sketch
        sketch = self._sketches[key]
        row = from_rows(sketch, [record.decisions])
        return Candidate(sketch, row.row(0))

    def report(self) -> tuple[str, ...]:
        """One line per reason."""
        return tuple(
            f"{count} records of {self._task.name} do not replay: {reason}"
            for reason, count in self.warnings.items()
        )


def recall(task: Task, records: Sequence[Record], cache_state: CacheState | None = None) -> Memory:
    """Everything that records say of a task on its target."""
    replayer = Replayer(task)
    mine = select(records, task.key, task.target, cache_state)
    candidates: dict[str, Candidate] = {}
    results: dict[str, MeasureResult] = {}
    for record in mine:
        key = record.candidate_key
        if key not in candidates:
            candidate = replayer.replay(record)
            if candidate is None:
                continue
            candidates[key] = candidate
        if key not in results or _is_wrong(record.result):
            results[key] = record.result
    best_s = next((s for s, r in rank(mine) if r.candidate_key in candidates), math.inf)
    foreign = [replayer.replay(record) for record in seeds(records, task.key, task.target)]
    return Memory(
        tuple(candidates.values()),
        tuple(results.values()),
        best_s,
        tuple(candidate for candidate in foreign if candidate is not None),
        replayer.report(),
    )


def recall_best(
    task: Task, log: str | PathLike[str], cache_state: CacheState | None = None
) -> Recalled | None:
    """The fastest candidate of a log that still replays, or None."""
    found = RecordLog(log).read()
    notify(found.warnings)
    return best_of(task, found.records, cache_state)


def best_of(
    task: Task, records: Iterable[Record], cache_state: CacheState | None = None
) -> Recalled | None:
    """The fastest candidate among records that still replays, or None.

    Warns of faster ones that do not.
    """
    replayer = Replayer(task)
    best: Recalled | None = None
    for seconds, record in rank(select(records, task.key, task.target, cache_state)):
        candidate = replayer.replay(record)
        if candidate is not None:
            best = Recalled(candidate, seconds, record)
            break
    notify(replayer.report())
    return best


def _is_wrong(result: MeasureResult) -> bool:
    return isinstance(result, Failure) and result.kind == WRONG_RESULT
