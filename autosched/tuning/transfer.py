"""What the tasks of a run take from others: the best schedules of the nearest ones, rescaled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from autosched.measure.result import Timing
from autosched.records.identity import identity
from autosched.search.best_schedules import best_schedules
from autosched.search.nearest import bests_of_tasks, nearest

if TYPE_CHECKING:
    from autosched.records.record import Record
    from autosched.tasks.candidate import Candidate
    from autosched.tasks.spec import TaskSpec
    from sketch.schedule.sketch import Sketch
    from sketch.target.target import Target


class Transfer:
    """The best of each task: of this run so far, of examples, and of the release.

    Args:
        examples: of earlier runs, of whatever tasks and machines.
        most: candidates that a task begins with from others; 0: none.
    """

    def __init__(self, examples: Sequence[Record], most: int) -> None:
        self._given, self._most = examples, most
        self._bests: dict[tuple[str, Target], tuple[float, Record]] = {}

    def note(self, records: Iterable[Record]) -> None:
        """Results of this run's tasks, or of those that it resumes."""
        for record in records:
            if isinstance(record.result, Timing):
                place = record.task, identity(record.target)
                known = self._bests.get(place)
                if known is None or record.result.median < known[0]:
                    self._bests[place] = record.result.median, record

    def seeds(self, task: TaskSpec, known: Iterable[Sketch] = ()) -> tuple[Candidate, ...]:
        """What to try first of a task that nothing was measured of; ``known``: its sketches."""
        if not self._most:
            return ()
        own = [record for _, record in self._bests.values()]
        return nearest(task, [*own, *self._examples], self._most, known)

    @cached_property
    def _examples(self) -> tuple[Record, ...]:
        return (*bests_of_tasks(self._given), *best_schedules())
