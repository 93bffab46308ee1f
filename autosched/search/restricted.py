"""Any policy on a table: only candidates of a given set are proposed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import MeasureResult
from autosched.search.policy import SearchPolicy
from autosched.tasks.candidate import Candidate
from sketch.population.population import Population, from_rows


class CandidatePool:
    """Distinct candidates of one task; each is taken once.

    ``take_nearest`` gives the row with the smallest sum of squared differences of
    ``log2(value + 1)`` over the decisions, among those of the same sketch; where that has none
    left, the first row that is left of any.
    """

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        groups: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            groups.setdefault(candidate.sketch.key, []).append(candidate)
        self._shelves = {key: _Shelf(members) for key, members in groups.items()}

    def take_nearest(self, wanted: Candidate) -> Candidate | None:
        """The candidate most like ``wanted``; None: all are taken."""
        shelf = self._shelves.get(wanted.sketch.key)
        found = None if shelf is None else shelf.take_nearest(wanted)
        return found or self.take_first()

    def take_first(self) -> Candidate | None:
        """The first that is left, in the order of sketches and rows; None: all are taken."""
        shelf = next((shelf for shelf in self._shelves.values() if shelf.left), None)
        return None if shelf is None else shelf.take_first()

    def drop(self, candidate: Candidate) -> None:
        """Take a candidate that is known from elsewhere, if it is here."""
        shelf = self._shelves.get(candidate.sketch.key)
        if shelf is not None:
            shelf.drop(candidate)


class RestrictedPolicy:
    """Every candidate that ``policy`` asks for becomes the nearest one left in a pool.

    The policy is told of the candidates that were measured instead of its own.
    """

    def __init__(self, policy: SearchPolicy, pool: CandidatePool) -> None:
        self._policy, self._pool = policy, pool

    def ask(self, count: int) -> list[Candidate]:
        """Candidates of the pool; an empty list when it is used up; see ``SearchPolicy``."""
        batch: list[Candidate] = []
        for wanted in self._policy.ask(count):
            found = self._pool.take_nearest(wanted)
            if found is None:
                return batch
            batch.append(found)
        while len(batch) < count and (found := self._pool.take_first()) is not None:
            batch.append(found)
        return batch

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """See ``SearchPolicy``."""
        for candidate in candidates:
            self._pool.drop(candidate)
        self._policy.tell(candidates, results)


class _Shelf:
    """The rows of one sketch, and which of them are left."""

    def __init__(self, members: list[Candidate]) -> None:
        self._members = members
        population = from_rows(members[0].sketch, [member.values for member in members])
        self._places = {member.key: n for n, member in enumerate(members)}
        self._points = _points(population)
        self._free = np.ones(len(members), dtype=np.bool_)

    @property
    def left(self) -> int:
        """Rows that were not taken."""
        return int(self._free.sum())

    def take_nearest(self, wanted: Candidate) -> Candidate | None:
        """The nearest row that is left; of equally near ones the first."""
        if not self.left:
            return None
        point = _points(from_rows(wanted.sketch, [wanted.values]))
        distance = np.round(((self._points - point) ** 2).sum(axis=1), 9)
        return self._take(int(np.argmin(np.where(self._free, distance, np.inf))))

    def take_first(self) -> Candidate:
        """The first row that is left, of which there must be one."""
        return self._take(int(np.argmax(self._free)))

    def drop(self, candidate: Candidate) -> None:
        """A row that is known needs not be taken any more."""
        place = self._places.get(candidate.key)
        if place is not None:
            self._free[place] = False

    def _take(self, place: int) -> Candidate:
        self._free[place] = False
        return self._members[place]


def _points(population: Population) -> NDArray[np.float64]:
    return np.log2(population.values + 1.0)
