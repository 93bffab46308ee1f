"""The rows around a row: what coordinate descent looks at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.tasks.candidate import Candidate
from sketch.population.population import Population, clamp, concat, deduplicate, from_rows
from sketch.schedule.sketch import Sketch


def neighbours(centre: Candidate, hops: int = 2) -> Population:
    """All rows that differ in a decision by up to ``hops`` choices, or in two levels of an axis."""
    sketch = centre.sketch
    start = from_rows(sketch, [centre.values])
    rows = [_single_steps(sketch, start.values[0], hops), _moves(sketch, start.values[0], hops)]
    values = clamp(sketch, np.concatenate(rows))
    return deduplicate(concat([Population(sketch, values[(values != start.values).any(axis=1)])]))


def _single_steps(sketch: Sketch, row: NDArray[np.int64], hops: int) -> NDArray[np.int64]:
    """[N, D]: one decision moved up or down its choices, doubled or halved."""
    found: list[NDArray[np.int64]] = [np.empty((0, len(row)), dtype=np.int64)]
    for column, decision in enumerate(sketch.decisions):
        others = _near(decision.choices, int(row[column]), hops)
        changed = np.repeat(row[None, :], len(others), axis=0)
        changed[:, column] = others
        found.append(changed)
    return np.concatenate(found)


def _moves(sketch: Sketch, row: NDArray[np.int64], hops: int) -> NDArray[np.int64]:
    """[N, D]: one level of an axis changed, another scaled so that the tile keeps its size."""
    found: list[NDArray[np.int64]] = [np.empty((0, len(row)), dtype=np.int64)]
    for chain in sketch.chains:
        for giver in chain.columns:
            for taker in chain.columns:
                if giver != taker:
                    found.append(_move(sketch, row, giver, taker, hops))
    return np.concatenate(found)


def _move(
    sketch: Sketch, row: NDArray[np.int64], giver: int, taker: int, hops: int
) -> NDArray[np.int64]:
    others = _near(sketch.decisions[giver].choices, int(row[giver]), hops)
    choices = np.array(sketch.decisions[taker].choices, dtype=np.int64)
    wanted = np.maximum(np.rint(row[taker] * row[giver] / others), 1)
    place = np.clip(np.searchsorted(choices, wanted, side="right") - 1, 0, len(choices) - 1)
    changed = np.repeat(row[None, :], len(others), axis=0)
    changed[:, giver], changed[:, taker] = others, choices[place]
    return changed


def _near(choices: tuple[int, ...], value: int, hops: int) -> NDArray[np.int64]:
    """Choices around a value: neighbours in the list, and those nearest to its half and double."""
    table = np.array(choices, dtype=np.int64)
    here = int(np.searchsorted(table, value))
    places = {here + hop for hop in range(-hops, hops + 1)}
    places |= {int(np.searchsorted(table, scaled)) for scaled in (value // 2, value * 2)}
    inside = sorted(p for p in places if 0 <= p < len(table))
    near = table[np.array(inside, dtype=np.int64)]
    return near[near != value]
