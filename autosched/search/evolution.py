"""Evolution of one sketch's rows under a scorer; NumPy over whole generations."""

from __future__ import annotations

import numpy as np

from autosched.search.options import SearchOptions
from autosched.search.sampling import keep_feasible
from autosched.search.scorer import Scorer
from autosched.search.selection import Scored
from sketch.population.population import (
    Population,
    among,
    concat,
    crossover,
    deduplicate,
    mutate,
)


def evolve(
    start: Population,
    scorer: Scorer,
    rng: np.random.Generator,
    rows: int,
    options: SearchOptions,
) -> Scored:
    """Every row scored in ``options.generations`` generations, each once.

    Args:
        start: the first generation, feasible and different rows.
        scorer: the cost model.
        rng: source of randomness.
        rows: size of a generation.
        options: of the search.
    """
    current = Scored(start, scorer.score(start))
    archive = current
    for _ in range(options.generations):
        elite = archive.best(max(1, int(options.evolution.elite_share * rows)))
        parents = Scored(
            concat([current.population, elite.population]),
            np.concatenate([current.scores, elite.scores]),
        )
        children = breed(parents, rng, int(options.evolution.spare * rows), options)
        fresh = ~among(children.keys(), archive.population.keys())
        children = keep_feasible(children.take(np.flatnonzero(fresh)))
        children = children.take(np.arange(min(rows, children.count)))
        if not children.count:
            break
        current = Scored(children, scorer.score(children))
        archive = Scored(
            concat([archive.population, current.population]),
            np.concatenate([archive.scores, current.scores]),
        )
    return archive


def breed(
    parents: Scored, rng: np.random.Generator, rows: int, options: SearchOptions
) -> Population:
    """At most ``rows`` different children; the better a parent's rank, the more of them it has.

    They are valid but need not be feasible, nor differ from their parents.

    Args:
        parents: rows and their scores.
        rng: source of randomness.
        rows: most children.
        options: of the search.
    """
    ranked = parents.best(len(parents.scores)).population
    odds = np.exp(-np.arange(ranked.count) / max(1.0, options.evolution.pressure * ranked.count))
    odds /= odds.sum()
    mothers = ranked.take(rng.choice(ranked.count, rows, p=odds))
    fathers = ranked.take(rng.choice(ranked.count, rows, p=odds))
    mutating = rng.random(rows) < options.mutation_probability
    mutated = mutate(mothers, rng)
    crossed = crossover(mothers, fathers, rng)
    values = np.where(mutating[:, None], mutated.values, crossed.values)
    return deduplicate(Population(mothers.sketch, values))
