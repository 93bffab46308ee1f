"""Sketches with random rows, ranked by the draft model; and which of them are worth searching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosched.search.neighbours import neighbours
from autosched.search.sampling import sample_feasible
from autosched.search.space_options import SpaceOptions
from autosched.system.user_warnings import notify
from autosched.tasks.candidate import Candidate
from sketch.errors import AutoschedError, LoweringError, ScheduleError
from sketch.population.feasible import feasible, fills
from sketch.population.population import Population, concat
from sketch.schedule.sketch import Sketch

Drafted = tuple[Population, NDArray[np.float64]]

_LEAST_GOING: Final = 2  # descents that go on to the end
# How many times longer a row that uses all of a card may be predicted to take, and is preferred to
# one that leaves processors or their schedulers idle: no draft of such a row was ever measured.
_IDLE: Final = 1.25


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
    """The rows, the best first.

    Nothing is recorded: of many sketches, and of all where only one candidate is wanted, nothing
    else will be asked.
    """
    if not population.count:
        return population, np.empty(0)
    seconds = _rated(population, once=True)
    order = np.lexsort((population.keys(), np.round(np.log(seconds), 6)))
    return population.take(order), seconds[order]


def _rated(population: Population, once: bool = False) -> NDArray[np.float64]:
    """Draft seconds, float64 [rows]; more where a row leaves part of the machine idle.

    ``once``: see ``draft_seconds``.
    """
    from costmodel.extract import draft_seconds

    seconds = draft_seconds(population, once=once)
    return np.where(fills(population.sketch, population.columns()), seconds, _IDLE * seconds)


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
        row, least = _descend(population, seconds, options)
        if least < seconds[0]:
            found[place] = concat([row, population]), np.concatenate([[least], seconds])
    return sorted(found, key=lambda item: round(float(np.log(item[1][0])), 6))


_Found = tuple[Population, float]
"""A row, and its seconds."""


def _descend(population: Population, seconds: NDArray[np.float64], options: SpaceOptions) -> _Found:
    """The best row that descents from several rows come to.

    Half of the descents go on after each round, but two at least: those that have come furthest.
    """
    going = [
        (population.take(np.array([place])), float(seconds[place]))
        for place in _starts(population, options)
    ]
    best = going[0]
    for _ in range(options.descents):
        going = sorted(_stepped(going, options), key=lambda item: item[1])
        if not going:
            break
        best = min(best, going[0], key=lambda item: item[1])
        going = going[: max(_LEAST_GOING, len(going) // 2)]
    return best


def _starts(population: Population, options: SpaceOptions) -> list[int]:
    """The best row, and the next ones that differ from all before in several decisions."""
    chosen = [0]
    for place in range(1, min(population.count, options.start_rows)):
        if len(chosen) == options.starts:
            break
        differing = (population.values[chosen] != population.values[place]).sum(axis=1)
        if (differing >= options.apart).all():
            chosen.append(place)
    return chosen


def _stepped(found: Sequence[_Found], options: SpaceOptions) -> list[_Found]:
    """The best neighbour of each row that has a better one."""
    near = [neighbours(Candidate(row.sketch, row.row(0))) for row, _ in found]
    owners = np.repeat(np.arange(len(near)), [rows.count for rows in near])
    every = concat(near)
    fits = np.flatnonzero(feasible(every.sketch, every.columns()) if every.count else [])
    if not len(fits):
        return []
    pool, owners = every.take(fits), owners[fits]
    seconds = _rated(pool)
    better: list[_Found] = []
    for n, (_, before) in enumerate(found):
        places = np.flatnonzero(owners == n)
        if len(places):
            rows, own = pool.take(places), seconds[places]
            least = int(np.lexsort((rows.keys(), np.round(np.log(own), 6)))[0])
            if own[least] <= before * (1 - options.least_gain):
                better.append((rows.take(np.array([least])), float(own[least])))
    return better


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
