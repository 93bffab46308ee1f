"""Schedules that come with a release: what searches on a machine like the target ended with."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from autosched.records.identity import akin
from autosched.search.best_schedules import best_schedules

if TYPE_CHECKING:
    from autosched.records.record import Record
    from sketch.target.target import Target


def released(tasks: Collection[str], target: Target) -> tuple[Record, ...]:
    """The records of tasks that a release has of such a machine, or of one that is akin to it.

    On a Zen 4 those of a Zen 5 run the networks of the zoo 1.03 to 1.25 times as fast as what the
    draft model chooses.

    Args:
        tasks: their keys.
        target: the machine.
    """
    return tuple(
        record
        for record in best_schedules()
        if record.task in tasks and akin(record.target, target)
    )
