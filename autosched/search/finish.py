"""The finish: coordinate descent over decisions from the best measured rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.measure.result import MeasureResult
from autosched.search.measured import Measured
from autosched.search.neighbours import neighbours
from autosched.search.options import FinishOptions
from autosched.search.sampling import keep_feasible
from autosched.search.scorer import Scorer
from autosched.search.selection import Scored
from autosched.tasks.candidate import Candidate


class FinishPolicy:
    """Neighbours of the best measured row: one decision changed, or a factor moved in an axis.

    When the best row has none left, those of the next best follow.
    """

    def __init__(
        self, measured: Measured, scorer: Scorer, options: FinishOptions | None = None
    ) -> None:
        self._measured, self._scorer = measured, scorer
        self._options = options or FinishOptions()

    def ask(self, count: int) -> list[Candidate]:
        """Unseen neighbours, best-scored first; see ``SearchPolicy``."""
        batch: list[Candidate] = []
        for _, centre in self._measured.leaders(self._options.centres):
            found = self._around(centre).best(count - len(batch))
            fresh = [found.candidate(n) for n in range(found.population.count)]
            self._measured.note_asked(fresh)
            batch += fresh
            if len(batch) >= count:
                break
        return batch

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """See ``SearchPolicy``."""
        self._measured.tell(candidates, results)

    def _around(self, centre: Candidate) -> Scored:
        near = keep_feasible(neighbours(centre, self._options.hops))
        if not near.count:
            return Scored(near, np.empty(0))
        best = Scored(near, self._scorer.score(near)).best(self._options.neighbours)
        fresh = np.flatnonzero(self._measured.unseen(best.population))
        return Scored(best.population.take(fresh), best.scores[fresh])
