"""Errors of a network's tasks together: looked at once, while there is time to search on.

The fastest variants of all tasks may add more to the network's outputs than it may have.  Then some
tasks must do with more accurate variants, of which the search has tried few candidates: their times
were no match.  Those tasks are held to a smaller error, and their search goes on with what is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from autosched.records.record import Record
from autosched.report.events import Progress
from autosched.tuning.scheduler import TaskScheduler
from autosched.tuning.task_run import TaskRun
from sketch.errors import AutoschedError

if TYPE_CHECKING:
    from autosched.tuning.job import TuneJob

# Part of the trials after which it is known which variants are fast.
_DUE: Final = 0.35
# The network is compiled for it, a matter of seconds: runs that end sooner do without.
_LEAST_BUDGET_S: Final = 60.0
_LEAST_TRIALS: Final = 1000


class NetworkLimit:
    """Looks at the errors of a network once in a run.

    Args:
        job: ``error_limits`` and the budget.
        runs: its tasks.
        scheduler: of the run.
    """

    def __init__(self, job: TuneJob, runs: Sequence[TaskRun], scheduler: TaskScheduler) -> None:
        budget_s, trials = job.options.budget_s or math.inf, job.options.trials or math.inf
        long_enough = budget_s >= _LEAST_BUDGET_S and trials >= _LEAST_TRIALS
        self._find = job.error_limits if long_enough else None
        self._runs, self._scheduler = runs, scheduler

    def hold(self, records: Sequence[Record], progress: Progress) -> None:
        """Hold tasks to smaller errors where it is time for that, and necessary.

        Args:
            records: of all tasks.
            progress: is told what is done.
        """
        measured = all(math.isfinite(run.best_s) for run in self._runs)
        if self._find is None or not measured or self._scheduler.done_share() < _DUE:
            return
        find, self._find = self._find, None
        progress.message("looking at how far the errors of all tasks together move the outputs")
        try:
            limits = find(records)
        except AutoschedError as error:
            progress.message(f"warning: errors of the network are not known: {error}")
            return
        for index, run in enumerate(self._runs):
            if run.task.key in limits:
                counted = run.restrict(limits[run.task.key])
                self._scheduler.restart(index, counted, run.best_s)
        if limits:
            names = ", ".join(run.task.name for run in self._runs if run.task.key in limits)
            progress.message(f"more accurate variants are searched for {names}")
