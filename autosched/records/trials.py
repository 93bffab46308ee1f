"""The trials of each task, from whatever holds them: for plots and reports."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import Timing
from autosched.records.identity import compatible
from autosched.records.reading import RecordSet
from autosched.records.record import Record
from autosched.records.store import RecordStore, open_store
from autosched.system.errors import OptionError
from autosched.tasks.spec import TaskSpec
from sketch.errors import quoted

_HINT: Final = "give a log, what tune returned, or records"
# Characters of a task's title in a legend.
_LABEL: Final = 36


@dataclass(frozen=True, slots=True)
class TaskTrials:
    """One task of a run.

    Attributes:
        key: of the task.
        label: for a legend.
        records: its trials, in the order of the log.
        numbers: of these trials among those of all tasks, from 1, int64 [trials].
        seconds: median of each trial; infinite for a failure, float64 [trials].
    """

    key: str
    label: str
    records: tuple[Record, ...]
    numbers: NDArray[np.int64]
    seconds: NDArray[np.float64]

    @property
    def best_s(self) -> float:
        """Infinite without a success."""
        return float(self.seconds.min(initial=math.inf))

    @property
    def state(self) -> str:
        """The label, and that nothing ran where nothing did."""
        return self.label if math.isfinite(self.best_s) else f"{self.label}: no success"

    def best_until(self, count: int) -> NDArray[np.float64]:
        """[count] seconds of the best so far after each of the run's trials."""
        found = np.full(count, math.inf)
        found[self.numbers - 1] = self.seconds
        return np.minimum.accumulate(found)


def tasks_of(data: Any, failed: bool = False) -> tuple[TaskTrials, ...]:
    """The tasks of a run that have a success, in the order of their first trials.

    Only records of the machine that measured last count.  ``failed``: also tasks without a success.

    Raises:
        OptionError: ``data`` is something else, or has no trial that succeeded.
    """
    known = records_of(data)
    target = known[-1].target if known else None
    mine = [r for r in known if target and compatible(r.target, target)]
    tried = trials_of(mine)
    found = tuple(task for task in tried if math.isfinite(task.best_s))
    if not found:
        raise OptionError("no trial succeeded, so there is nothing to plot", hint=_HINT)
    return tried if failed else found


def first_measurements(records: Sequence[Record]) -> list[Record]:
    """The trials of records of one machine, without those that timed a known candidate again.

    On a machine that slows down, a task's best is timed in the middle of the search; such records
    have no number.  In logs of older releases, which numbered nothing, all count.
    """
    tried = [record for record in records if record.phase == "trial"]
    numbered = {record.candidate_key for record in tried if record.trial is not None}
    return [r for r in tried if r.trial is not None or r.candidate_key not in numbered]


def trials_of(records: Sequence[Record]) -> tuple[TaskTrials, ...]:
    """The tasks of records of one machine that have a trial, in the order of their first ones."""
    tried = first_measurements(records)
    groups: dict[str, list[int]] = {}
    for number, record in enumerate(tried):
        groups.setdefault(record.task, []).append(number)
    return tuple(_task(key, tried, numbers) for key, numbers in groups.items())


def _task(key: str, tried: Sequence[Record], numbers: Sequence[int]) -> TaskTrials:
    records = tuple(tried[n] for n in numbers)
    times = [r.result.median if isinstance(r.result, Timing) else math.inf for r in records]
    label = label_of(key, records)
    return TaskTrials(key, label, records, np.array(numbers) + 1, np.array(times))


def label_of(key: str, records: Sequence[Record]) -> str:
    """What a legend calls a task: its title, or else the beginning of its key."""
    title = next((record.title.text for record in records if record.title), key[:8])
    return title if len(title) <= _LABEL else f"{title[: _LABEL - 1]}…"


def records_of(data: Any) -> Sequence[Record]:
    """The records that ``data`` holds; raises OptionError where it is something else."""
    if isinstance(data, str | os.PathLike):
        data = open_store(data)
    if isinstance(data, RecordStore):
        if not data.exists():
            raise OptionError("the log does not exist", data.name, _HINT)
        data = data.read()
    if isinstance(data, RecordSet):
        return data.records
    result = getattr(data, "result", data)
    found = getattr(result, "records", result)
    if isinstance(found, Sequence) and all(isinstance(item, Record) for item in found):
        return found
    raise OptionError(f"{type(data).__name__} holds no trials", hint=_HINT)


def weights_of(data: Any, weights: Mapping[str, float] | None) -> Mapping[str, float]:
    """How often each task occurs, by its key: as given, or as the result of tuning says; else 1."""
    if weights is not None:
        return weights
    tasks = getattr(getattr(data, "result", data), "tasks", ())
    return {item.task.key: item.task.weight for item in tasks}


def task_of(data: Any, task: str | TaskSpec | None) -> TaskTrials:
    """One task: this one, the one whose key begins with a text, or that with the most trials.

    Raises:
        OptionError: there is none.
    """
    found = tasks_of(data)
    if task is None:
        return max(found, key=lambda item: len(item.records))
    key = task.key if isinstance(task, TaskSpec) else task
    for item in found:
        if isinstance(key, str) and item.key.startswith(key):
            return item
    known = ", ".join(item.key for item in found)
    raise OptionError(f"there is no task {quoted(task)}", hint=f"known: {known}")


def main_sketch(task: TaskTrials) -> tuple[list[Record], NDArray[np.float64]]:
    """The records of the sketch that got the most successful trials, and their seconds."""
    good = [(r, s) for r, s in zip(task.records, task.seconds, strict=True) if math.isfinite(s)]
    groups: dict[str, list[tuple[Record, float]]] = {}
    for record, seconds in good:
        groups.setdefault(record.sketch_key, []).append((record, float(seconds)))
    mine = max(groups.values(), key=len)
    return [record for record, _ in mine], np.array([seconds for _, seconds in mine])


def decisions_of(records: Sequence[Record]) -> dict[str, NDArray[np.int64]]:
    """[records] values of each decision of one sketch, those with most different values first."""
    columns = {
        name: np.array([r.decisions[name] for r in records]) for name in records[0].decisions
    }
    order = sorted(columns, key=lambda name: -len(np.unique(columns[name])))
    return {name: columns[name] for name in order}
