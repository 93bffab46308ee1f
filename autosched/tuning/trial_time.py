"""How long trials take, as far as the turns of this run have told."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.tuning.options import SchedulerOptions
from autosched.tuning.task_progress import TaskProgress


def mean_trial_s(tasks: Sequence[TaskProgress]) -> float:
    """Seconds that a trial took, over all tasks; 0 where that is not known."""
    count = sum(task.timed_trials for task in tasks)
    return sum(task.seconds for task in tasks) / count if count else 0.0


def trial_s(
    task: TaskProgress, tasks: Sequence[TaskProgress], constants: SchedulerOptions
) -> float:
    """Seconds that a trial of one of the tasks takes."""
    mean = mean_trial_s(tasks) or constants.trial_s
    prior = constants.trial_prior
    return (task.seconds + prior * mean) / (task.timed_trials + prior)


def rest_s(
    pending: Sequence[int],
    spent_s: float,
    tasks: Sequence[TaskProgress],
    constants: SchedulerOptions,
) -> float:
    """Seconds until all trials are made that are on their way.

    Args:
        pending: how many they are, of each task.
        spent_s: seconds that the oldest of their turns has had.
        tasks: what became of earlier turns.
        constants: what a trial takes before any was timed.
    """
    busy = [(n, task) for n, task in zip(pending, tasks, strict=True) if n]
    return max(0.0, sum(n * trial_s(task, tasks, constants) for n, task in busy) - spent_s)
