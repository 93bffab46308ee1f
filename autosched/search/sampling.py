"""Random rows that the target can run."""

from __future__ import annotations

from typing import Final

import numpy as np

from sketch.population.feasible import feasible, hardware_of
from sketch.population.population import Population, concat, deduplicate, mix_nests, sample
from sketch.population.smaller import smaller
from sketch.schedule.sketch import Sketch

# Draws of a sample before it is taken as it is: tight limits leave few feasible rows.
_DRAWS: Final = 6
# Of so many rows that are wanted one has to be found; else what is drawn is made to fit.
_SCARCE: Final = 8


def keep_feasible(population: Population) -> Population:
    """The rows that fit the target's registers, caches and instruction budget."""
    if not population.count:
        return population
    sketch = population.sketch
    return population.take(np.flatnonzero(feasible(sketch, population.columns())))


def sample_feasible(
    sketch: Sketch, count: int, rng: np.random.Generator, enough: int | None = None
) -> Population:
    """At most ``count`` different feasible rows; fewer where the sketch hardly has any.

    Args:
        sketch: whose decisions are drawn.
        count: most rows.
        rng: source of randomness.
        enough: stop drawing when so many were found; None: ``count``.
    """
    least = count if enough is None else enough
    found = keep_feasible(deduplicate(mix_nests(sample(sketch, count, rng), rng)))
    for _ in range(_DRAWS - 1):
        if found.count >= least or not sketch.decisions:
            break
        fresh = keep_feasible(mix_nests(sample(sketch, count, rng), rng))
        found = deduplicate(concat([found, fresh]))
    by_levels = hardware_of(sketch.target).blocks is None
    if _SCARCE * found.count < least and sketch.decisions and by_levels:
        found = deduplicate(concat([found, smaller(sample(sketch, count, rng), rng)]))
    return found.take(np.arange(min(found.count, count)))
