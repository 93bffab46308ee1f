"""What a report is about: the tasks of one or several runs, each with its trials and best time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from autosched.measure.result import Timing
from autosched.records.best import comparable, rank
from autosched.records.errors import RecordError
from autosched.records.identity import identity, instructions
from autosched.records.record import Record
from autosched.records.title import title_of
from autosched.records.trials import TaskTrials, label_of, trials_of
from autosched.report.page.network import NetworkOperator
from autosched.system.stability import relative_deviation
from autosched.tasks.spec import TaskSpec
from sketch.target.target import Target

# Instructions in the name of a run.
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class ReportTask:
    """One task of a run.

    Attributes:
        key: of the task.
        label: for people, different for every task of the run.
        weight: how often the network runs it; 1 where no network is known.
        flops: of one run; None: unknown.
        records: all of them, trials and re-measurements, in the order of the log.
        trials: only the trials; None: the log has none, as after it was pruned.
        best: the record of the fastest candidate; None without a success.
        seconds: estimated time of it; infinite without one.
        low_s, high_s: quartiles of the samples behind it; equal to it where there is one sample.
    """

    key: str
    label: str
    weight: float
    flops: float | None
    records: tuple[Record, ...]
    trials: TaskTrials | None
    best: Record | None
    seconds: float
    low_s: float
    high_s: float

    @property
    def deviation(self) -> float | None:
        """Standard deviation over median of the samples behind the time; None for one sample."""
        timing = None if self.best is None else self.best.result
        return relative_deviation(timing.seconds) if isinstance(timing, Timing) else None

    @property
    def total_s(self) -> float:
        """Seconds in one run of the network."""
        return self.weight * self.seconds


@dataclass(frozen=True, slots=True)
class ReportRun:
    """What was measured on one machine, into one log.

    Attributes:
        name: of the log, and of the machine where the log has several.
        target: the machine.
        tasks: in the order of the log.
        records: of these tasks.
    """

    name: str
    target: Target
    tasks: tuple[ReportTask, ...]
    records: tuple[Record, ...]

    @property
    def trials(self) -> tuple[TaskTrials, ...]:
        """Of the tasks that have any that succeeded."""
        known = (task.trials for task in self.tasks)
        return tuple(item for item in known if item is not None and math.isfinite(item.best_s))

    @property
    def tried(self) -> int:
        """Trials, failures included."""
        return sum(len(task.trials.records) for task in self.tasks if task.trials is not None)

    @property
    def timed(self) -> tuple[ReportTask, ...]:
        """The tasks that have a time, those that take longest first."""
        found = [task for task in self.tasks if math.isfinite(task.seconds)]
        return tuple(sorted(found, key=lambda task: -task.total_s))

    @property
    def total_s(self) -> float:
        """Of all tasks that have a time."""
        return sum(task.total_s for task in self.timed)

    def task(self, key: str) -> ReportTask | None:
        """By its key."""
        return next((task for task in self.tasks if task.key == key), None)


@dataclass(frozen=True, slots=True)
class ReportSubject:
    """What a report is about.

    Attributes:
        title: of the page.
        runs: the first is what most sections are about, the others are compared with it.
        specs: the tasks as programs by key; empty where no network is given.
        operators: the calls of the network, in the order of execution; empty without one.
        warnings: lines of logs that cannot be read.
    """

    title: str
    runs: tuple[ReportRun, ...]
    specs: Mapping[str, TaskSpec]
    operators: tuple[NetworkOperator, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def main(self) -> ReportRun:
        return self.runs[0]


def runs_of(
    name: str, records: Sequence[Record], specs: Mapping[str, TaskSpec]
) -> tuple[ReportRun, ...]:
    """The runs that a log holds, one for each machine; the machine that measured last first.

    Raises:
        RecordError: it has no record, or with ``specs`` records of other tasks.
    """
    if not records:
        raise RecordError("the log has no record", name, "tune first, or name another log")
    _check_tasks(name, records, specs)
    machines: dict[Target, list[Record]] = {}
    for record in records:
        machines.setdefault(identity(record.target), []).append(record)
    latest = {target: number for number, target in enumerate(machines)}
    latest |= {identity(record.target): n for n, record in enumerate(records)}
    ordered = sorted(machines.items(), key=lambda pair: -latest[pair[0]])
    names = _machine_names([target for target, _ in ordered])
    return tuple(
        _run(name if len(ordered) == 1 else f"{name} on {called}", mine, specs)
        for called, (_, mine) in zip(names, ordered, strict=True)
    )


def no_trials(runs: Sequence[ReportRun]) -> str:
    """Why some runs have no trial that succeeded."""
    tried = sum(run.tried for run in runs)
    if tried:
        return f"None of {tried} trials ran; the section on failures says why."
    return "The log has no trials, only their winners: it was pruned."


def machine(target: Target) -> str:
    """What a table calls a machine: ``znver4/2``, with the number of threads."""
    return f"{target.label}/{target.threads}"


def _machine_names(targets: Sequence[Target]) -> list[str]:
    """Of each machine, all different: those of one label and as many threads are told apart by
    the instructions that not all of them have, or else by a number.
    """
    labels = [machine(target) for target in targets]
    names = []
    for label, target in zip(labels, targets, strict=True):
        twins = [other for n, other in zip(labels, targets, strict=True) if n == label]
        shared = set.intersection(*(set(instructions(twin)) for twin in twins))
        own = [item for item in instructions(target) if item not in shared]
        more = ", ..." if len(own) > _MOST_NAMED else ""
        names.append(f"{label} with {', '.join(own[:_MOST_NAMED])}{more}" if own else label)
    return [
        name if names.count(name) == 1 else f"{name} ({1 + names[:n].count(name)})"
        for n, name in enumerate(names)
    ]


def _check_tasks(name: str, records: Sequence[Record], specs: Mapping[str, TaskSpec]) -> None:
    if not specs:
        return
    keys = dict.fromkeys(record.task for record in records)
    others = [key for key in keys if key not in specs]
    if len(others) == len(keys):
        raise RecordError("no record is of a task of this network", name, "name another model")
    if others:
        label = label_of(others[0], [record for record in records if record.task == others[0]])
        count = f"{len(others)} of its {len(keys)} tasks are none of this network's"
        raise RecordError(
            f"the log is of another network, too: {count} ({label})",
            name,
            "leave the model out, or cut the log down with `autosched records prune --model`",
        )


def _run(name: str, records: Sequence[Record], specs: Mapping[str, TaskSpec]) -> ReportRun:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.task, []).append(record)
    labels = _labels(groups, specs)
    tried = {item.key: replace(item, label=labels[item.key]) for item in trials_of(records)}
    tasks = tuple(
        _task(key, labels[key], group, tried.get(key), specs.get(key))
        for key, group in groups.items()
    )
    return ReportRun(name, records[-1].target, tasks, tuple(records))


def _labels(groups: Mapping[str, list[Record]], specs: Mapping[str, TaskSpec]) -> dict[str, str]:
    """A label of each task, by its key; tasks of one label get the beginning of their key."""
    labels = {
        key: title_of(specs[key]).text if key in specs else label_of(key, group)
        for key, group in groups.items()
    }
    times = Counter(labels.values())
    return {k: label if times[label] == 1 else f"{label} {k[:8]}" for k, label in labels.items()}


def _task(
    key: str,
    label: str,
    group: list[Record],
    trials: TaskTrials | None,
    spec: TaskSpec | None,
) -> ReportTask:
    title = next((record.title for record in group if record.title is not None), None)
    flops = spec.flops if spec is not None else None if title is None else title.flops
    weight = 1.0 if spec is None else spec.weight
    main = max(comparable(group).values(), key=len)
    ranked = rank(main)
    if not ranked:
        return ReportTask(
            key, label, weight, flops, tuple(group), trials, None, math.inf, math.inf, math.inf
        )
    seconds, best = ranked[0]
    low, high = _quartiles(seconds, best)
    return ReportTask(key, label, weight, flops, tuple(group), trials, best, seconds, low, high)


def _quartiles(seconds: float, record: Record) -> tuple[float, float]:
    """Of the samples of a record, moved as its estimated time was moved from their median."""
    assert isinstance(record.result, Timing)
    low, high = np.percentile(record.result.seconds, (25, 75)) * seconds / record.result.median
    return float(low), float(high)
