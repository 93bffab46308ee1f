"""Which records of a log still stand for candidates of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from autosched.records.record import Record
from autosched.search.recall import Replayer
from sketch.target.target import Target

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec


def replayable(
    records: Iterable[Record], tasks_for: Callable[[Target], Sequence[TaskSpec]]
) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Records that replay in the tasks, and one line for each reason why others do not.

    Args:
        records: of a log.  Those of tasks that are not among the tasks are dropped, too.
        tasks_for: the tasks for a target.
    """
    replayers: dict[Target, dict[str, Replayer]] = {}
    kept, foreign = [], 0
    for record in records:
        if record.target not in replayers:
            tasks = tasks_for(record.target)
            replayers[record.target] = {task.key: Replayer(task) for task in tasks}
        replayer = replayers[record.target].get(record.task)
        if replayer is None:
            foreign += 1
        elif replayer.replay(record) is not None:
            kept.append(record)
    lines = [
        line for group in replayers.values() for one in group.values() for line in one.report()
    ]
    if foreign:
        said = "1 record is of a task" if foreign == 1 else f"{foreign} records are of tasks"
        lines.append(f"{said} that the network does not have")
    return tuple(kept), tuple(lines)
