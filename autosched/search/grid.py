"""Enumeration of a space: every feasible row of every sketch, once, in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import MeasureResult
from autosched.search.measured import Measured
from autosched.search.sampling import keep_feasible
from autosched.search.space import Space
from autosched.tasks.candidate import Candidate
from sketch.population.population import Population, clamp, register_tiles
from sketch.schedule.sketch import Sketch

_BLOCK: Final = 2048
_GOLDEN_RATIO: Final = (math.sqrt(5.0) - 1.0) / 2.0


class GridPolicy:
    """The sketches take turns, the most promising first; nothing is random, nothing is learned.

    Args:
        space: sketches of the task.
        measured: memory to share with other policies of the task; None: an own one.
    """

    def __init__(self, space: Space, measured: Measured | None = None) -> None:
        self._measured = measured or Measured(space.sketches)
        self._open = [_unseen_rows(sketch, self._measured) for sketch in space.sketches]
        self._turn = 0

    def ask(self, count: int) -> list[Candidate]:
        """The next rows; an empty list when all were asked for; see ``SearchPolicy``."""
        batch: list[Candidate] = []
        while len(batch) < count and self._open:
            self._turn %= len(self._open)
            found = next(self._open[self._turn], None)
            if found is None:
                del self._open[self._turn]
                continue
            self._measured.note_asked([found])
            batch.append(found)
            self._turn += 1
        return batch

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """See ``SearchPolicy``."""
        self._measured.tell(candidates, results)


def _unseen_rows(sketch: Sketch, measured: Measured) -> Iterator[Candidate]:
    for population in enumerate_rows(sketch):
        for n in range(population.count):
            candidate = Candidate(sketch, population.row(n))
            if measured.is_new(candidate):
                yield candidate


def enumerate_rows(sketch: Sketch) -> Iterator[Population]:
    """Blocks of all feasible rows of a sketch, each row once.

    The grid is the product of the feasible register tiles of every nest (at most 16,384 each, see
    ``sketch.population.register_tiles``) and the choices of every other decision.  It is visited
    in steps of a golden section, so that any beginning of the order covers all of it evenly.
    """
    if not sketch.decisions:
        yield keep_feasible(Population(sketch, np.empty((1, 0), dtype=np.int64)))
        return
    nests = register_tiles(sketch)
    tiled = {n for members, _ in nests for n in members}
    others = [n for n in range(len(sketch.decisions)) if n not in tiled]
    sizes = [len(tiles) for _, tiles in nests]
    sizes += [len(sketch.decisions[n].choices) for n in others]
    total = math.prod(sizes)
    step = _coprime_step(total)
    for start in range(0, total, _BLOCK):
        places = [number * step % total for number in range(start, min(start + _BLOCK, total))]
        digits = _digits(places, sizes)
        values = np.empty((len(places), len(sketch.decisions)), dtype=np.int64)
        for (members, tiles), digit in zip(nests, digits, strict=False):
            values[:, list(members)] = tiles[digit]
        for n, digit in zip(others, digits[len(nests) :], strict=True):
            values[:, n] = np.array(sketch.decisions[n].choices, dtype=np.int64)[digit]
        valid = (clamp(sketch, values) == values).all(axis=1)
        yield keep_feasible(Population(sketch, values[valid]))


def _coprime_step(total: int) -> int:
    """Near the golden section of ``total``, and without a common factor: visits every place."""
    step = max(1, int(total * _GOLDEN_RATIO))
    while math.gcd(step, total) != 1:
        step += 1
    return step


def _digits(places: list[int], sizes: Sequence[int]) -> list[NDArray[np.int64]]:
    """Mixed-radix digits of every place; the places may be too large for a machine integer."""
    rest = np.array(places, dtype=object)
    digits = []
    for size in sizes:
        digits.append((rest % size).astype(np.int64))
        rest = rest // size
    return digits
