"""Sketches with random rows, ranked by the draft model; and which of them are worth searching."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.search.neighbours import neighbours
from autosched.search.sampling import keep_feasible, sample_feasible
from autosched.search.space_options import SpaceOptions
from autosched.system.user_warnings import notify
from autosched.tasks.candidate import Candidate
from sketch.errors import AutoschedError, LoweringError, ScheduleError
from sketch.population.population import Population, concat
from sketch.schedule.sketch import Sketch

Drafted = tuple[Population, NDArray[np.float64]]


def drafted_sketches(
    sketches: Sequence[Sketch], options: SpaceOptions, quick: bool
) -> list[Drafted]:
    """The sketches that have feasible rows, each with some of them; ``quick``: with few.

    Raises:
        LoweringError: a sketch cannot become loops; of a user's rule: none can, with its name.
        ScheduleError: as LoweringError.
    """
    usable: list[Drafted] = []
    refused: list[AutoschedError] = []
    for sketch in sketches:
        try:
            population, seconds = _draft(sketch, options, quick)
        except (LoweringError, ScheduleError) as error:
            if not sketch.rules:
                raise
            refused.append(error.at(f"a sketch of rule {', '.join(sketch.rules)}"))
            continue
        if population.count:
            usable.append((population, seconds))
    if refused and not usable:
        raise refused[0]
    if refused:
        notify([f"{len(refused)} of {len(sketches)} sketches left out: {refused[0]}"])
    return usable


def _draft(sketch: Sketch, options: SpaceOptions, quick: bool) -> Drafted:
    """Random rows, the best first; the rows depend on the sketch alone."""
    rng = np.random.default_rng(int(sketch.key, 16))
    rows, enough = (options.few_rows, 1) if quick else (options.rows, options.rows)
    population = sample_feasible(sketch, rows, rng, enough)
    return _drafted(population)


def _drafted(population: Population) -> Drafted:
    """The rows, the best first."""
    from costmodel.extract import draft_seconds

    if not population.count:
        return population, np.empty(0)
    seconds = draft_seconds(population, once=True)
    order = np.lexsort((population.keys(), np.round(np.log(seconds), 6)))
    return population.take(order), seconds[order]


def descended(drafted: Sequence[Drafted], reference: str, options: SpaceOptions) -> list[Drafted]:
    """The same, where the best sketch of all, and the best of ``reference``, begin with a row that
    the draft likes better than its neighbours.  The best sketch is still the first.

    Args:
        drafted: sketches, the best first.
        reference: name of the variant that the task is written in.
        options: how far to descend.
    """
    found, wanted = list(drafted), {0}
    names = [population.sketch.variant for population, _ in drafted]
    if reference in names:
        wanted.add(names.index(reference))
    for place in wanted:
        population, seconds = drafted[place]
        row, least = _descend(population.take(np.arange(1)), float(seconds[0]), options)
        if least < seconds[0]:
            found[place] = concat([row, population]), np.concatenate([[least], seconds])
    return sorted(found, key=lambda item: round(float(np.log(item[1][0])), 6))


def _descend(best: Population, seconds: float, options: SpaceOptions) -> tuple[Population, float]:
    """One row: its best neighbour in turn, while the draft finds a better one; and its seconds."""
    for _ in range(options.descents):
        candidate = Candidate(best.sketch, best.row(0))
        near, drafts = _drafted(keep_feasible(neighbours(candidate)))
        if not near.count or drafts[0] > seconds * (1 - options.least_gain):
            break
        best, seconds = near.take(np.arange(1)), float(drafts[0])
    return best, seconds


def prune(drafted: Sequence[Drafted], options: SpaceOptions) -> list[Drafted]:
    """Sketches near enough to the best and the best of each variant, best first."""
    ranked = sorted(drafted, key=lambda item: round(float(np.log(item[1][0])), 6))
    limit = float(ranked[0][1][0]) * options.keep_within
    kept: list[Drafted] = []
    close: list[Drafted] = []
    seen: set[str] = set()
    for item in ranked:
        variant = item[0].sketch.variant
        if variant not in seen:
            seen.add(variant)
            kept.append(item)
        elif item[1][0] <= limit:
            close.append(item)
    chosen = {id(item[0]) for item in (kept + close)[: options.most]}
    return [item for item in ranked if id(item[0]) in chosen]
