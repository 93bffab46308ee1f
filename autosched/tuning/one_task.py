"""Tuning of a single task, the way a network is tuned: with progress, and a before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from autosched.compilation.task import task_module
from autosched.report.comparison import Comparison, before_and_after
from autosched.tasks.spec import TaskSpec
from autosched.tuning.local import tune_locally
from autosched.tuning.networks import progress_of, without_record
from autosched.tuning.request import TuneRequest
from autosched.tuning.result import TuneResult


@dataclass(frozen=True, slots=True, eq=False)
class TaskTuning:
    """What tuning a task gave.

    Attributes:
        task: what was tuned.
        constants: an array for each of its constants.
        request: how; its log, where it has one, holds the records.
        result: trials, and why it ended.
    """

    task: TaskSpec
    constants: Mapping[str, NDArray[Any]]
    request: TuneRequest
    result: TuneResult

    def compare(self, repeats: int = 50) -> Comparison:
        """Latency with the draft model's favourite, and with the fastest candidate of the log."""
        untuned = task_module(self.task, self.constants)
        tuned = task_module(self.task, self.constants, self.request.log)
        return Comparison(before_and_after(untuned, tuned, tuned.random_inputs(), repeats), None)

    def to_json(self) -> dict[str, Any]:
        """The task and what the run did as JSON values, times of tasks in milliseconds."""
        own = {"workload": self.task.name, "target": self.task.target.to_json()}
        return own | self.result.to_json()


def tune_task(
    task: TaskSpec, constants: Mapping[str, NDArray[Any]], request: TuneRequest
) -> TaskTuning:
    """Tune one task; without any limit, ``local_tuning.DEFAULT_TRIALS`` trials.

    Args:
        task: for this machine, where the request does not bring a runner of its own.
        constants: an array for each of its constants, for the comparison.
        request: as for a network.
    """
    if request.skip_tuned and request.log is not None:
        left, nothing = without_record([task], request.log)
        if not left:
            return TaskTuning(task, constants, request, nothing)
    shown = replace(request, progress=progress_of(request, task.target))
    return TaskTuning(task, constants, request, tune_locally([task], shown))
