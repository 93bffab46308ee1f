"""The rows around a row: what coordinate descent looks at."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from autosched.tasks.candidate import Candidate
from sketch.population.population import Population, clamp, concat, deduplicate, from_rows
from sketch.schedule.sketch import Sketch

# (column, value, another column, its value); twice the same where one decision is changed.
_Change = tuple[int, int, int, int]


def neighbours(centre: Candidate, hops: int = 2) -> Population:
    """All rows that differ in a decision by up to ``hops`` choices, or in two levels of an axis."""
    sketch = centre.sketch
    start = from_rows(sketch, [centre.values])
    row: list[int] = start.values[0].tolist()
    near = [_near(d.choices, n, hops) for d, n in zip(sketch.decisions, row, strict=True)]
    changes = [*_single_steps(near), *_moves(sketch, row, near)]
    table = np.repeat(start.values, len(changes), axis=0)
    one, value, other, its = np.array(changes, dtype=np.int64).reshape(-1, 4).T
    places = np.arange(len(changes))
    table[places, one] = value
    table[places, other] = its
    values = clamp(sketch, table)
    return deduplicate(concat([Population(sketch, values[(values != start.values).any(axis=1)])]))


def _single_steps(near: Sequence[Sequence[int]]) -> Iterator[_Change]:
    """One decision moved up or down its choices, doubled or halved."""
    for column, others in enumerate(near):
        for value in others:
            yield column, value, column, value


def _moves(sketch: Sketch, row: Sequence[int], near: Sequence[Sequence[int]]) -> Iterator[_Change]:
    """One level of an axis changed, another scaled so that the tile keeps its size."""
    for chain in sketch.chains:
        for giver in chain.columns:
            for taker in chain.columns:
                if giver != taker:
                    choices, size = sketch.decisions[taker].choices, row[taker] * row[giver]
                    for value in near[giver]:
                        wanted = max(round(size / value), 1)
                        place = max(bisect_right(choices, wanted) - 1, 0)
                        yield giver, value, taker, choices[place]


def _near(choices: Sequence[int], value: int, hops: int) -> list[int]:
    """Choices around a value: neighbours in the list, and those nearest to its half and double."""
    here = bisect_left(choices, value)
    places = {here + hop for hop in range(-hops, hops + 1)}
    places |= {bisect_left(choices, scaled) for scaled in (value // 2, value * 2)}
    inside = [choices[p] for p in sorted(places) if 0 <= p < len(choices)]
    return [choice for choice in inside if choice != value]
