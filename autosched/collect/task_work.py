"""One task of a corpus while it is measured: some candidates by chance, as many from a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from autosched.measure.result import MeasureResult
from autosched.search.evolutionary import EvolutionaryPolicy
from autosched.search.measured import Measured
from autosched.search.options import SearchOptions
from autosched.search.policy import SearchPolicy
from autosched.search.random_search import RandomPolicy
from autosched.search.space import space_of
from autosched.tasks.candidate import Candidate

if TYPE_CHECKING:
    from autosched.search.scorer import Scorer
    from autosched.tasks.spec import TaskSpec

# A search that takes less time than the measuring of what it finds.
_SEARCH: Final = SearchOptions(population=1024, generations=2, epsilon=0.0)
_MOST_AT_ONCE: Final = 64  # candidates of a batch: all of it is compiled before any is timed


@dataclass(frozen=True, slots=True)
class WorkBatch:
    """Candidates to be measured.

    Attributes:
        work: the task that they are of.
        candidates: not empty.
        searched: whether a search proposed them; else chance.
    """

    work: TaskWork
    candidates: list[Candidate]
    searched: bool


class TaskWork:
    """What is measured of a task, and what is known of it.

    Args:
        task: to be measured.
        wanted: candidates.
        known: candidates of earlier runs, not to be measured again.
        scorer: of the search.
        rng: source of everything random.
    """

    def __init__(
        self,
        task: TaskSpec,
        wanted: int,
        known: Sequence[Candidate],
        scorer: Scorer,
        rng: np.random.Generator,
    ) -> None:
        space = space_of(task)
        self.task = task
        self._searched = wanted // 2
        self._random = wanted - self._searched
        self._measured = Measured(space.sketches)
        self._measured.note_asked(known)
        self._chance = RandomPolicy(space, rng, self._measured)
        self._search = EvolutionaryPolicy(space, scorer, rng, _SEARCH, self._measured)

    def by_chance(self) -> Iterator[WorkBatch]:
        """The random half; every sketch is equally likely."""
        return self._batches(self._chance, self._random, False)

    def by_search(self) -> Iterator[WorkBatch]:
        """The other half, evolved when it is asked for."""
        return self._batches(self._search, self._searched, True)

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Results, for the search."""
        self._measured.tell(candidates, results)

    def _batches(self, policy: SearchPolicy, count: int, searched: bool) -> Iterator[WorkBatch]:
        while count > 0:
            found = policy.ask(min(count, _MOST_AT_ONCE))
            if not found:
                return
            count -= len(found)
            yield WorkBatch(self, found, searched)
