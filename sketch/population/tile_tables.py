"""Tables of register tiles: combinations of the trips of unrolled loops, before any program is
asked whether it fits.

They depend on the choices alone, which the sketches of a task, and layers of equal extents, share.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# Most register tiles that are enumerated for one sketch.
_MAX_TILES: Final = 16384
# Tables that are kept, of a megabyte or so: the sketches of a task ask for few others in between.
_KEPT: Final = 8


class TileLevel(NamedTuple):
    """One decision of an unrolled loop.

    Attributes:
        choices: its trips, ascending.
        stage: which of the stages it makes copies of, counted in the order of the levels; None: it
            reduces, and its copies add to the same registers.
    """

    choices: tuple[int, ...]
    stage: int | None


class _Begun(NamedTuple):
    """Combinations of the first levels, each as one of those before and what follows it.

    Attributes:
        before: int64 [T], which combination of the levels before.
        trips: int64 [T], of the last of the levels.
    """

    before: Ints
    trips: Ints


@lru_cache(maxsize=_KEPT)
def tile_table(levels: tuple[TileLevel, ...], registers: int) -> Ints:
    """Combinations of the trips of ``levels``, but for those whose copies of a stage alone need
    more registers than there are; read only.

    Returns:
        [T, levels]: a random part where they are very many, as those of several products in a nest
        are; at most 16,384.
    """
    rng = np.random.default_rng(0)
    begun: list[_Begun] = []
    copies: dict[int, Ints] = {}
    count = 1
    for level in levels:
        own = None if level.stage is None else copies.get(level.stage, np.ones(count, np.int64))
        added = _added(level, own, count, registers, rng)
        copies = {stage: every[added.before] for stage, every in copies.items()}
        if level.stage is not None and own is not None:
            copies[level.stage] = own[added.before] * added.trips
        begun.append(added)
        count = len(added.trips)
    table = _written_out(begun, _some(count, _MAX_TILES, rng))
    table.flags.writeable = False
    return table


def _added(
    level: TileLevel, copies: Ints | None, count: int, registers: int, rng: np.random.Generator
) -> _Begun:
    """``count`` combinations, each followed by every choice of ``level`` that has registers; a
    random part of them where they are very many.

    Args:
        level: the next one.
        copies: that the combinations make of its stage, at most ``registers``; None: it reduces.
        count: combinations.
        registers: of the machine.
        rng: chooses the part.
    """
    choices = np.array(level.choices, dtype=np.int64)
    if copies is None:
        every = np.arange(count)
        return _Begun(np.repeat(every, len(choices)), np.tile(choices, count))
    # The numbers of the combinations first: most of them fall out.
    room = registers // np.maximum(np.arange(registers + 1), 1)
    fitting = np.searchsorted(choices, room, side="right")[copies]
    ends = np.cumsum(fitting)
    total = int(fitting.sum())
    # More than in the end, for few of those with all decisions fit the machine.
    most = 16 * _MAX_TILES
    if total > most:
        kept = _some(total, most, rng)
        before = np.searchsorted(ends, kept, side="right")
    else:
        kept = np.arange(total)
        before = np.repeat(np.arange(count), fitting)
    return _Begun(before, choices[kept - (ends - fitting)[before]])


def _some(count: int, most: int, rng: np.random.Generator) -> Ints:
    """Which of ``count`` rows to keep, so that they are at most ``most``."""
    return np.sort(rng.choice(count, most, replace=False)) if count > most else np.arange(count)


def _written_out(begun: list[_Begun], rows: Ints) -> Ints:
    """The combinations of all levels that ``rows`` of the last one end."""
    table = np.empty((len(rows), len(begun)), dtype=np.int64)
    for n, level in reversed(list(enumerate(begun))):
        table[:, n] = level.trips[rows]
        rows = level.before[rows]
    return table
