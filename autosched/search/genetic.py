"""Evolution without a model: the fitness of a candidate is what was measured of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.measure.result import MeasureResult
from autosched.search.evolution import breed
from autosched.search.measured import Measured
from autosched.search.options import SearchOptions
from autosched.search.random_search import draw_unseen
from autosched.search.sampling import keep_feasible
from autosched.search.selection import Scored
from autosched.search.space import Space
from autosched.tasks.candidate import Candidate


class GeneticPolicy:
    """The fastest measured rows are mutated and crossed; some rows of each batch are random.

    Args:
        space: sketches of the task.
        rng: source of everything random.
        options: ``mutation_probability`` and ``epsilon`` (the random part) are used.
        measured: memory to share with other policies of the task; None: an own one.
    """

    def __init__(
        self,
        space: Space,
        rng: np.random.Generator,
        options: SearchOptions | None = None,
        measured: Measured | None = None,
    ) -> None:
        self._rng = rng
        self._options = options or SearchOptions()
        self._measured = measured or Measured(space.sketches)
        self._sketches = len(space.sketches)

    def ask(self, count: int) -> list[Candidate]:
        """Children of the fastest; random rows as long as there are few; see ``SearchPolicy``."""
        batch: list[Candidate] = []
        if self._measured.successes >= self._options.genetic.founders:
            at_random = int(self._rng.binomial(count, self._options.epsilon))
            batch = self._children(count - at_random)
        shares = np.zeros(len(self._measured.sketches))
        shares[: self._sketches] = 1.0 / self._sketches
        return batch + draw_unseen(self._measured, count - len(batch), shares, self._rng)

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """See ``SearchPolicy``."""
        self._measured.tell(candidates, results)

    def _children(self, count: int) -> list[Candidate]:
        genetic = self._options.genetic
        parents = [candidate for _, candidate in self._measured.leaders(genetic.parents)]
        odds = np.exp(-np.arange(len(parents)) / genetic.decay)
        keys = [parent.sketch.key for parent in parents]
        sketches = {parent.sketch.key: parent.sketch for parent in parents}
        shares = np.array([odds[[k == key for k in keys]].sum() for key in sketches])
        # By their own sum: that of all odds may be less in its last bit, and shares above 1.
        wanted = self._rng.multinomial(count, shares / shares.sum())
        batch: list[Candidate] = []
        for sketch, number in zip(sketches.values(), wanted.tolist(), strict=True):
            if not number:
                continue
            fittest = self._measured.best_rows(sketch, keys.count(sketch.key))
            ranks = Scored(fittest, np.arange(1.0, fittest.count + 1.0))
            bred = keep_feasible(breed(ranks, self._rng, genetic.spare * number, self._options))
            fresh = np.flatnonzero(self._measured.unseen(bred))[:number]
            batch += [Candidate(sketch, bred.row(n)) for n in fresh.tolist()]
        self._measured.note_asked(batch)
        return batch
