"""Schedules that come with a release: what searches on a machine like the target ended with."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from autosched.records.identity import compatible
from autosched.search.best_schedules import best_schedules

if TYPE_CHECKING:
    from autosched.records.record import Record
    from sketch.target.target import Target


def released(tasks: Collection[str], target: Target) -> tuple[Record, ...]:
    """The records of tasks that a release has of such a machine, of as many threads.

    Args:
        tasks: their keys.
        target: the machine.
    """
    return tuple(
        record
        for record in best_schedules()
        if record.task in tasks and compatible(record.target, target)
    )
