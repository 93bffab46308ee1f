"""Which schedules the records of tasks suggest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autosched.compilation.scheduled import Scheduled
from autosched.records.error_budget import errors_of, held_to, with_constants
from autosched.records.identity import compatible
from autosched.search.by_position import by_position
from autosched.search.recall import usable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from autosched.graph.extract import Extraction
    from autosched.measure.result import CacheState
    from autosched.records.accuracy import Accuracy
    from autosched.records.record import Record
    from autosched.tasks.spec import TaskSpec


def accuracies(
    extraction: Extraction, tasks: Sequence[TaskSpec], accuracy: Accuracy
) -> dict[TaskSpec, Accuracy]:
    """``accuracy``, or what it is with the weights of a task."""
    weights: dict[int, list[NDArray[Any]]] = {id(task.dag): [] for task in tasks}
    for subgraph in extraction.subgraphs:
        weights[id(subgraph.dag)] += subgraph.constants.values()
    return {
        task: accuracy
        if len(task.variants) == 1
        else with_constants(accuracy, weights[id(task.dag)])
        for task in tasks
    }


def allowed_records(limits: Mapping[TaskSpec, Accuracy], records: Sequence[Record]) -> list[Record]:
    """The records of all tasks; those of variants that a task may not have are failures."""
    return [
        record
        for task, accuracy in limits.items()
        for record in held_to(by_position(task, records), task, accuracy)
    ]


def recorded(
    task: TaskSpec, records: Sequence[Record], state: CacheState, variant: str | None = None
) -> Scheduled | None:
    """The best recorded schedule of a task.

    Args:
        task: what is computed.
        records: that are allowed.
        state: cache state whose times are preferred; all times of the target are preferred to those
            of other machines.
        variant: the only one that is looked at; None: all.
    """
    mine = [record for record in records if record.task == task.key]
    best = next(usable(task, mine, state, variant), None)
    if best is None:
        return None
    errors = errors_of(task, mine, "fast").of(best.candidate.sketch.variant)
    return Scheduled(task, best.candidate, "record", best, errors=errors)


def best_known(
    task: TaskSpec, records: Sequence[Record], of_release: Sequence[Record], state: CacheState
) -> Scheduled | None:
    """The best schedule in records of this machine, else in the release, else of other machines.

    Of other machines, too, those of a log come before those of the release.

    Args:
        task: what is computed.
        records: that are allowed, of a log.
        of_release: that are allowed; of this machine, or of one that is akin to it.
        state: see ``recorded``.
    """
    found = recorded(task, records, state)
    if found is not None and _is_of_this_machine(found):
        return found
    known = recorded(task, of_release, state)
    if known is None or (found is not None and not _is_of_this_machine(known)):
        return found
    return replace(known, source="release")


def _is_of_this_machine(item: Scheduled) -> bool:
    assert item.recalled is not None
    return compatible(item.recalled.record.target, item.task.target)


def other_variants(
    item: Scheduled, records: Sequence[Record], state: CacheState
) -> Iterator[Scheduled]:
    """The best recorded schedule of each other variant of a task.

    Their times are compared, so that those of other machines do not count where there are some of
    this one.

    Args:
        item: a schedule of the task.
        records: that are allowed.
        state: cache state whose times are preferred.
    """
    own, task = item.candidate.sketch.variant, item.task
    mine = [record for record in records if record.task == task.key]
    here = [record for record in mine if compatible(record.target, task.target)]
    for variant in task.variants:
        if variant.name != own:
            best = recorded(task, here or mine, state, variant.name)
            if best is not None:
                yield best
