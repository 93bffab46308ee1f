"""``run_job``: start a runner where none is given, that of this machine usually, then the loop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from autosched.system.errors import OptionError
from autosched.system.noted_signals import noted_signals
from autosched.tuning.objectives import weighted_sum
from costmodel.checked import check_extra
from costmodel.extra_feature import extra_names

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec
    from autosched.tuning.job import TuneJob
    from autosched.tuning.result import TuneResult

SKIPPED: Final = "every task has a record"


def run_job(job: TuneJob) -> TuneResult:
    """Tune tasks together under one budget.

    Ctrl-C ends the run as the budget does: everything measured is in the log and in the result,
    whose ``interrupted`` is true.

    Raises:
        TuningError: nothing runs; names the first cause.
        OptionError: no limit, no tasks, one task twice, or an objective of its own in a run that
            leaves out tasks.
        CostModelError: the cost model was trained with other extra features.
        RecordError: the log cannot be read or written.
        OutOfMemoryError: the arrays of a task do not fit the memory of this machine.
    """
    _check(job)
    if job.cost_model is not None and not isinstance(job.cost_model, str):
        check_extra(job.cost_model, extra_names(job.options.search.extra_features))
    if job.skip_tuned and job.log is not None:
        job, nothing = _without_tuned(job)
        if not job.tasks:
            return nothing
    if job.log is not None:
        job.log.check_writable()
    job = replace(job, tasks=_as_asked(job))
    return _measured(job) if job.runner is None else _loop(job)


def _loop(job: TuneJob) -> TuneResult:
    from autosched.tuning.loop import TuningLoop

    with noted_signals() as signals:
        return TuningLoop(job, signals).tune()


def _measured(job: TuneJob) -> TuneResult:
    """On the runner that the job starts, else on this machine."""
    from autosched.measure.options import MeasureOptions
    from autosched.measure.runner import LocalRunner
    from autosched.system.memory_limit import check_room
    from autosched.tasks.compulsory_traffic import compulsory_bytes

    if job.start_runner is None:
        for task in job.tasks:
            check_room(f"the arrays of task {task.name}", int(compulsory_bytes(task.dag)))
    measure = replace(job.measure or MeasureOptions(), tolerance=job.options.tolerance)
    # The runner's clean process must start before anything loads an OpenMP runtime (LightGBM).
    start = job.start_runner or LocalRunner
    with start(job.tasks[0].target, measure) as runner:
        return _loop(replace(job, runner=runner, cache_state=measure.state))


def _as_asked(job: TuneJob) -> tuple[TaskSpec, ...]:
    """The tasks with the rules of the options, and with the variants that they may have."""
    tasks, options = job.tasks, job.options
    if options.rules is not None:
        tasks = [task.with_rules(options.rules) for task in tasks]
    if options.accuracy == "as written":
        tasks = [task.reference_only() for task in tasks]
    return tuple(tasks)


def _without_tuned(job: TuneJob) -> tuple[TuneJob, TuneResult]:
    """The tasks that the log knows no candidate of, and the result where there is none left."""
    from autosched.records.error_budget import held_to
    from autosched.search.recall import best_of
    from autosched.tuning.result import TuneResult

    if job.objective is not weighted_sum:
        raise OptionError(
            "an objective needs the times of all tasks, those with a record are to be skipped",
            hint="leave out either skip_tuned or objective",
        )
    assert job.log is not None
    known = job.log.read({task.key for task in job.tasks})
    accuracy = job.options.accuracy
    left = [
        n
        for n, task in enumerate(job.tasks)
        if best_of(task, held_to(known.records, task, accuracy)) is None
    ]
    usage = None if job.usage is None else [[row[n] for n in left] for row in job.usage]
    fewer = replace(job, tasks=[job.tasks[n] for n in left], usage=usage)
    return fewer, TuneResult((), known.records, 0, 0.0, SKIPPED, known.warnings)


def _check(job: TuneJob) -> None:
    if not job.tasks:
        raise OptionError("there is no task to tune")
    if not job.options.limited:
        raise OptionError("tuning would never end", hint="set trials or budget_s")
    keys = [task.key for task in job.tasks]
    if len(set(keys)) < len(keys):
        raise OptionError("one task is given twice", hint="give it once, with a larger weight")
    if len({task.target for task in job.tasks}) > 1:
        raise OptionError("the tasks have different targets", hint="tune one target at a time")
