"""Hooks into a tuning run, for whoever wants to look at candidates while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.measure.result import MeasureResult
from autosched.tasks.candidate import Candidate

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec


class Callback:
    """Hears of trials; does nothing itself, subclasses override what they want to hear.

    Calls come from the thread that tunes, after the records were written, so their time is taken
    from the search.  An exception ends the run and reaches the caller of ``tune``; everything
    measured stays in the log.  To show how far a run is, see ``events.Progress``.
    ``task`` is data; ``autosched.Task.of(task)`` compiles and explains it.
    """

    def on_batch(
        self, task: TaskSpec, candidates: Sequence[Candidate], results: Sequence[MeasureResult]
    ) -> None:
        """A batch was measured: one result a candidate, new bests checked against the oracle."""

    def on_new_best(self, task: TaskSpec, candidate: Candidate, seconds: float) -> None:
        """The batch that ``on_batch`` was told of holds a new best of the task."""

    def on_task_finished(self, task: TaskSpec, reason: str) -> None:
        """The task gets no more trials in this run; once for every task.

        ``reason``: why it was given up, or else why the run ended ("trials", "time", ...; see
        ``TuneResult.stopped``).
        """
