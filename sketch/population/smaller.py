"""Rows that are too large for the caches become smaller ones that fit.

Where a block needs private buffers of rows of thousands of elements, hardly any random row leaves
them in a cache: levels of tiles are drawn one after the other, and their product is large.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sketch.population.feasible import feasible
from sketch.population.population import Population

# How often a level of a row is made smaller: by half on average, so that of 2^16 nothing is left.
_ROUNDS: Final = 16


def smaller(population: Population, rng: np.random.Generator) -> Population:
    """The rows in which levels outside of the register tile are lowered, one of them at random
    after the other, until the row fits its target; rows that never do are left out.
    """
    sketch, values = population.sketch, population.values.copy()
    outer = [n for n, d in enumerate(sketch.decisions) if d.id not in sketch.unrolled]
    fits = feasible(sketch, population.columns()).copy()
    for _ in range(_ROUNDS if outer else 0):
        large = np.flatnonzero(~fits)
        if not len(large):
            break
        drawn, shares = rng.random((len(large), len(outer))), rng.random(len(large))
        least = np.array([sketch.decisions[n].choices[0] for n in outer], dtype=np.int64)
        drawn[values[large][:, outer] <= least] = -1.0
        chosen = np.array(outer)[drawn.argmax(axis=1)]
        for n in outer:
            rows = large[chosen == n]
            choices = np.array(sketch.decisions[n].choices, dtype=np.int64)
            below = np.searchsorted(choices, values[rows, n])
            values[rows, n] = choices[(shares[chosen == n] * below).astype(np.int64)]
        fits[large] = feasible(sketch, Population(sketch, values[large]).columns())
    return Population(sketch, values[fits])
