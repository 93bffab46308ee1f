"""Tuning of a single task, the way a network is tuned: with progress, and a before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from autosched.compilation.task import task_module
from autosched.records.accuracy import Accuracy
from autosched.records.store import RecordStore
from autosched.report.comparison import Comparison, Told, before_and_after, untold
from autosched.tasks.spec import TaskSpec
from autosched.tuning.job import TuneJob
from autosched.tuning.options import DEFAULT_TRIALS
from autosched.tuning.result import TuneResult
from autosched.tuning.run import run_job


@dataclass(frozen=True, slots=True, eq=False)
class TaskTuning:
    """What tuning a task gave.

    Attributes:
        task: what was tuned.
        constants: an array for each of its constants.
        log: holds the records; None: they were not kept.
        result: trials, and why it ended.
        accuracy: that was tuned for.
    """

    task: TaskSpec
    constants: Mapping[str, NDArray[Any]]
    log: RecordStore | None
    result: TuneResult
    accuracy: Accuracy = "default"

    def compare(self, repeats: int = 50, told: Told = untold) -> Comparison:
        """Latency with the draft model's favourite, and with the fastest candidate of the log.

        ``told``: is told what is done next.
        """
        told("compiling")
        untuned = task_module(self.task, self.constants)
        tuned = task_module(self.task, self.constants, self.log, accuracy=self.accuracy)
        inputs = tuned.random_inputs()
        return Comparison(before_and_after(untuned, tuned, inputs, repeats, told), None)

    def __repr__(self) -> str:
        return str(self.result)

    def _repr_html_(self) -> str:
        return self.result._repr_html_()

    def to_json(self) -> dict[str, Any]:
        """The task and what the run did as JSON values, times of tasks in milliseconds."""
        own = {"workload": self.task.name, "target": self.task.target.to_json()}
        return own | self.result.to_json()


def tune_task(task: TaskSpec, constants: Mapping[str, NDArray[Any]], job: TuneJob) -> TaskTuning:
    """Tune one task; without any limit, ``DEFAULT_TRIALS`` trials.

    Args:
        task: for this machine, where the job does not bring a runner of its own.
        constants: an array for each of its constants, for the comparison.
        job: all but the tasks.
    """
    options = job.options.unless_limited(trials=DEFAULT_TRIALS)
    result = run_job(replace(job, tasks=(task,), options=options))
    return TaskTuning(task, constants, job.log, result, options.accuracy)
