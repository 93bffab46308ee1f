"""Tuning on this machine: start the runner first, then everything that learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from autosched.measure.options import MeasureOptions
    from autosched.tasks.spec import TaskSpec
    from autosched.tuning.objectives import Usage
    from autosched.tuning.request import TuneRequest
    from autosched.tuning.result import TuneResult

DEFAULT_TRIALS: Final = 256


def tune_locally(
    tasks: Sequence[TaskSpec],
    request: TuneRequest,
    measure: MeasureOptions | None = None,
    usage: Usage | None = None,
) -> TuneResult:
    """Tune tasks by measuring them on this machine, or with the runner of the request.

    Args:
        tasks: distinct tasks, for this machine where it measures them.
        request: what to do.  Without any limit: ``DEFAULT_TRIALS``.
        measure: how to measure on this machine.
        usage: [networks][tasks], how often each task occurs; None: by the tasks' weights.

    Raises:
        OutOfMemoryError: the arrays of a task do not fit the memory of this machine.
    """
    from autosched.measure.options import MeasureOptions as Measure
    from autosched.measure.runner import LocalRunner
    from autosched.records.log import RecordLog
    from autosched.system.memory_room import check_room
    from autosched.tasks.least_traffic import least_bytes

    options = request.limited(trials=DEFAULT_TRIALS)
    log = None if request.log is None else RecordLog(request.log)
    more: dict[str, Any] = {
        "callbacks": request.callbacks,
        "model": request.cost_model,
        "objective": request.objective,
        "usage": usage,
    }
    if request.runner is not None:
        from autosched.tuning.loop import tune_tasks

        return tune_tasks(tasks, request.runner, log, options, request.progress, **more)
    for task in tasks:
        check_room(f"the arrays of task {task.name}", int(least_bytes(task.dag)))
    measure = replace(measure or Measure(), tolerance=options.tolerance)
    # The runner's clean process must start before anything loads an OpenMP runtime (LightGBM).
    with LocalRunner(tasks[0].target, measure) as runner:
        from autosched.tuning.loop import tune_tasks

        state = measure.cache_state
        return tune_tasks(tasks, runner, log, options, request.progress, cache_state=state, **more)
