"""How far a run is, for whoever shows it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.report.events import ProgressSnapshot, TaskRow
from autosched.system.stability import Conditions
from autosched.tuning.options import TuneOptions
from autosched.tuning.scheduler import TaskScheduler
from autosched.tuning.task_run import TaskRun


def snapshot(
    runs: Sequence[TaskRun],
    scheduler: TaskScheduler,
    options: TuneOptions,
    elapsed_s: float,
    measured: int,
    conditions: Conditions,
    current: int | None,
    stopped: str = "",
) -> ProgressSnapshot:
    """One moment of a run.

    Args:
        runs: of the tasks.
        scheduler: of the same tasks.
        options: the limits.
        elapsed_s: seconds since the run began.
        measured: trials of this run.
        conditions: of the machine while leaders were re-timed.
        current: number of the task at work; None: none.
        stopped: why the run ended; empty before.
    """
    rows = tuple(
        TaskRow(
            run.task.name, run.shapes, run.task.weight, run.task.flops, run.best_s, run.last_s,
            progress.trials, progress.failed, progress.stopped, run.retimed,
            run.unit,
        )
        for run, progress in zip(runs, scheduler.tasks, strict=True)
    )  # fmt: skip
    left_s = _seconds_left(scheduler.trials, options, elapsed_s, measured)
    return ProgressSnapshot(
        rows, current, scheduler.trials, options.trials, elapsed_s, options.budget_s, left_s,
        stopped, conditions,
    )  # fmt: skip


def _seconds_left(trials: int, options: TuneOptions, elapsed_s: float, measured: int) -> float:
    """Until the first limit at the present speed; infinite before anything was measured."""
    limits = [math.inf]
    if options.budget_s is not None:
        limits.append(options.budget_s - elapsed_s)
    if options.trials is not None and measured:
        limits.append((options.trials - trials) * elapsed_s / measured)
    return max(0.0, min(limits))
