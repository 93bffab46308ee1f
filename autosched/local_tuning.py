"""Tuning on this machine: start the runner first, then everything that learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Final

from autosched.options import TuneOptions

if TYPE_CHECKING:
    from autosched.measure.options import MeasureOptions
    from autosched.report.events import Progress
    from autosched.task import Task
    from autosched.tune_result import TuneResult

DEFAULT_TRIALS: Final = 256


def tune_locally(
    tasks: Sequence[Task],
    log: str | PathLike[str] | None = None,
    trials: int | None = None,
    budget: str | float | None = None,
    options: TuneOptions | None = None,
    progress: Progress | None = None,
    measure: MeasureOptions | None = None,
) -> TuneResult:
    """Tune tasks by measuring them on this machine.

    Args:
        tasks: distinct tasks for this machine.
        log: every trial is appended to it; what it has already counts.
        trials: measured candidates, those in the log included; overrides ``options``.
        budget: wall-clock limit, ``"10m"`` or seconds; overrides ``options``.
        options: how to search.  Without any limit: ``DEFAULT_TRIALS``.
        progress: who is told; None: nobody.
        measure: how to measure.
    """
    from autosched.measure.options import MeasureOptions as Measure
    from autosched.measure.runner import LocalRunner
    from autosched.records.log import RecordLog

    measure = measure or Measure()
    chosen = (options or TuneOptions()).with_budget(trials, budget)
    if chosen.trials is None and chosen.budget_s is None:
        chosen = replace(chosen, trials=DEFAULT_TRIALS)
    record_log = None if log is None else RecordLog(log)
    # The runner's clean process must start before anything loads an OpenMP runtime (LightGBM).
    with LocalRunner(tasks[0].target, replace(measure, tolerance=chosen.tolerance)) as runner:
        from autosched.tuner import tune_tasks

        return tune_tasks(
            tasks, runner, record_log, chosen, progress, cache_state=measure.cache_state
        )
