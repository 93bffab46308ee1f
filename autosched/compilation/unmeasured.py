"""Schedules without a record: which variants may be tried, and whether a kernel is good enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from autosched.compilation.check import WrongResultError, check_kernel, checkable, kernel_errors
from autosched.compilation.drafting import all_predicted
from autosched.compilation.scheduled import Built, Scheduled
from autosched.records.accuracy import Accuracy
from autosched.records.error_budget import allowed
from autosched.runtime.backend import runtime_of
from autosched.search.unmeasured import predictable
from autosched.system.user_warnings import notify
from codegen.kernel import Kernel

if TYPE_CHECKING:
    from autosched.compilation.ahead import ExpectedAhead
    from autosched.compilation.side_processes import SideProcesses
    from autosched.tasks.spec import TaskSpec, Variant
    from codegen.gpu.protocol import Device


def unmeasured(task: TaskSpec, quick: bool, check: bool, accuracy: Accuracy) -> Scheduled:
    """``all_unmeasured`` of one task.

    Args:
        task: without a record that is of use.
        quick: the draft model sees few candidates.
        check: its kernel is compared with the oracle, where it can run here.
        accuracy: "as written": no other variant.
    """
    return all_unmeasured({task: accuracy}, quick, check)[0]


def all_unmeasured(
    tasks: Mapping[TaskSpec, Accuracy],
    quick: bool,
    check: bool,
    processes: SideProcesses | None = None,
) -> list[Scheduled]:
    """What the draft model likes best of each task.

    For a CPU it is computed as it is written where its kernel will not be checked: nothing is known
    of the errors of a variant then.

    Args:
        tasks: without a record that is of use; "as written": no other variant.
        quick: the draft model sees few candidates, as the task is written.
        check: kernels are compared with the oracle, where they can run here.
        processes: share in it; None: there are none.
    """
    others: list[tuple[Variant, ...]] = []
    for task, accuracy in tasks.items():
        own: tuple[Variant, ...] = ()
        if check and accuracy != "as written" and not quick:
            own = predictable(task, runtime_of(task.target).in_process and checkable(task))
        others.append(own)
    found = all_predicted(list(tasks), quick, others, processes)
    return [Scheduled.unmeasured(task, own) for task, own in zip(tasks, found, strict=True)]


def accepted(
    built: Built,
    accuracy: Accuracy,
    ahead: ExpectedAhead | None = None,
    device: Device | None = None,
) -> Scheduled:
    """The schedule of a kernel that is right and accurate enough, else the one to build instead.

    Args:
        built: a kernel that nobody compared with the oracle.
        accuracy: the error budget of variants.
        ahead: gives what is expected of tasks, and memory; None: both are asked here.
        device: that of ``check.device_of``, where the kernel is for a GPU.

    Raises:
        WrongResultError: there is nothing to build instead.
    """
    item = built.item
    try:
        if item.judged_by_errors:
            return _held(built, accuracy, ahead)
        memory = None if ahead is None else ahead.take(item.task)
        check_kernel(item.task, item.candidate, built.kernel, built.strides, memory, device)
    except WrongResultError as error:
        if item.source == "release":
            notify([f"the schedule that the release knows of a task is not used: {error}"])
            return unmeasured(item.task, False, True, accuracy)
        if len(item.predicted) < 2:
            raise
        notify([f"variant {item.candidate.sketch.variant} is not used: {error}"])
        return _next(item, "is wrong")
    return item


def _held(built: Built, accuracy: Accuracy, ahead: ExpectedAhead | None) -> Scheduled:
    """The schedule with its errors, or the next one if they are beyond the budget.

    Raises:
        WrongResultError: it is no question of accuracy.
    """
    item = built.item
    assert isinstance(built.kernel, Kernel)
    memories = None if ahead is None else ahead.of_means(item.task)
    errors = kernel_errors(item.task, item.candidate, built.kernel, built.strides, memories)
    if not allowed(errors, accuracy):
        return _next(item, f"has an error of {max(errors):.1e}")
    return replace(item, errors=errors)


def _next(item: Scheduled, why: str) -> Scheduled:
    refused = f"{item.candidate.sketch.variant} {why}"
    following = Scheduled.unmeasured(item.task, item.predicted[1:], refused)
    return replace(following, short_sums=item.short_sums)
