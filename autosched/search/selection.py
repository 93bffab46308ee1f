"""Picking the batch to measure: the best-scored rows, mutually different, some at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.search.scorer import ranking, rounded
from autosched.tasks.candidate import Candidate
from sketch.population.population import Population


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Rows with their scores, float64 [P]; lower is better."""

    population: Population
    scores: NDArray[np.float64]

    def best(self, count: int) -> Scored:
        """The ``count`` best rows, best first."""
        order = ranking(self.population, self.scores)[:count]
        return Scored(self.population.take(order), self.scores[order])

    def candidate(self, row: int) -> Candidate:
        """One row, with its score."""
        population = self.population
        return Candidate(population.sketch, population.row(row), float(self.scores[row]))


def pick(
    pools: list[Scored], count: int, quotas: NDArray[np.int64], distance: int
) -> list[Candidate]:
    """The ``count`` best rows over several sketches.

    Rows that differ from an accepted one in too few decisions wait, as do rows beyond the quota of
    their sketch; they come in only when there is nothing else.

    Args:
        pools: one per sketch, unseen rows only.
        count: size of the batch.
        quotas: [len(pools)] most rows of each sketch.
        distance: decisions in which two rows of a sketch differ at least.
    """
    pools = [pool.best(16 * count) for pool in pools]
    owner = np.concatenate([np.full(len(p.scores), n) for n, p in enumerate(pools)])
    place = np.concatenate([np.arange(len(p.scores)) for p in pools])
    scores = rounded(np.concatenate([p.scores for p in pools]))
    hashes = np.concatenate([p.population.keys() for p in pools])
    order = np.lexsort((hashes, owner, scores))
    taken = np.zeros(len(pools), dtype=np.int64)
    far = [np.ones(len(pool.scores), dtype=bool) for pool in pools]  # from all that was accepted
    first: list[tuple[int, int]] = []
    waiting: list[tuple[int, int]] = []
    for n, row in zip(owner[order].tolist(), place[order].tolist(), strict=True):
        if len(first) == count:
            break
        fits = taken[n] < quotas[n] and far[n][row]
        (first if fits else waiting).append((n, row))
        if fits:
            taken[n] += 1
            values = pools[n].population.values
            far[n] &= (values != values[row]).sum(axis=1) >= distance
    chosen = (first + waiting)[:count]
    return [pools[n].candidate(r) for n, r in chosen]
