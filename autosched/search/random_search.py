"""The baseline policy: feasible rows at random, without a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import MeasureResult
from autosched.search.measured import Measured
from autosched.search.sampling import sample_feasible
from autosched.search.space import Space
from autosched.tasks.candidate import Candidate

# Rows drawn for each one wanted, so that a few that are known do not leave a batch short.
_SPARE = 4
_LEAST = 64


class RandomPolicy:
    """Every sketch is equally likely, and so is every row that its sampler draws."""

    def __init__(
        self, space: Space, rng: np.random.Generator, measured: Measured | None = None
    ) -> None:
        self._rng = rng
        self._measured = measured or Measured(space.sketches)
        self._sketches = len(space.sketches)

    def ask(self, count: int) -> list[Candidate]:
        """See ``SearchPolicy``."""
        shares = np.zeros(len(self._measured.sketches))
        shares[: self._sketches] = 1.0 / self._sketches
        return draw_unseen(self._measured, count, shares, self._rng)

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """See ``SearchPolicy``."""
        self._measured.tell(candidates, results)


def draw_unseen(
    measured: Measured, count: int, shares: NDArray[np.float64], rng: np.random.Generator
) -> list[Candidate]:
    """At most ``count`` feasible rows that nobody asked for; they count as asked from now on.

    Sketches that run dry leave their part to the others.

    Args:
        measured: what was asked for.
        count: most candidates.
        shares: [S] odds of each sketch.
        rng: source of randomness.
    """
    batch: list[Candidate] = []
    shares = shares.copy()
    while len(batch) < count and shares.sum() > 0:
        wanted = rng.multinomial(count - len(batch), shares / shares.sum())
        for index in np.flatnonzero(wanted).tolist():
            drawn = _draw(measured, index, int(wanted[index]), rng)
            measured.note_asked(drawn)
            batch += drawn
            if len(drawn) < wanted[index]:
                shares[index] = 0.0
    return batch


def _draw(measured: Measured, index: int, count: int, rng: np.random.Generator) -> list[Candidate]:
    sketch = measured.sketches[index]
    rows = sample_feasible(sketch, max(_LEAST, _SPARE * count), rng)
    fresh = np.flatnonzero(measured.unseen(rows))
    chosen = fresh[rng.permutation(len(fresh))[:count]]
    return [Candidate(sketch, rows.row(n)) for n in chosen.tolist()]
