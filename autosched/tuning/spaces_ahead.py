"""Spaces of the tasks that come next, built in the background while nothing is timed.

Whoever builds a space gets the same one, so nothing depends on who was faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from autosched.measure.protocol import BackgroundWorker, Runner
from autosched.search.space import give_space, is_built
from autosched.search.space_elsewhere import BUILT_BY, request, space_from

if TYPE_CHECKING:
    from autosched.search.space_options import SpaceOptions
    from autosched.tasks.spec import TaskSpec

# Spaces that are on their way: enough for all processes, few enough that the first batch is soon
# compiled.
_MOST: Final = 4


class SpacesAhead:
    """Spaces of some tasks.

    Args:
        runner: may work in the background; else tasks get their spaces when they need them.
        tasks: known by their positions.
        options: of all spaces.
    """

    def __init__(self, runner: Runner, tasks: Sequence[TaskSpec], options: SpaceOptions) -> None:
        self._worker = runner if isinstance(runner, BackgroundWorker) else None
        self._tasks, self._options = tasks, options
        self._coming: dict[int, Future[bytes | None]] = {}
        self._begun: set[int] = set()

    def begin(self, upcoming: Iterable[int]) -> None:
        """Begin with some of the tasks, in their order."""
        if self._worker is None:
            return
        for index in upcoming:
            if len(self._coming) >= _MOST:
                return
            if index not in self._begun:
                self._begun.add(index)
                asked = request(self._tasks[index], self._options)
                if asked is not None and not is_built(self._tasks[index], self._options):
                    self._coming[index] = self._worker.in_background(BUILT_BY, asked)

    def finish(self, index: int) -> None:
        """Wait for the space of a task, if it is on its way; from now on nobody else builds it."""
        self._begun.add(index)
        coming = self._coming.pop(index, None)
        built = None if coming is None else coming.result()
        if built is not None:
            task = self._tasks[index]
            give_space(task, self._options, space_from(task, built))
