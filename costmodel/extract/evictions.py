"""Lines that leave the first cache before they are read again, because they meet in one set.

The set of a line is given by its place in a page: a first cache has as many ways as it has pages.
Rows of a register tile that are whole pages apart, as those of images with 1024 channels, all lie
in one set.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.access import Access
from costmodel.extract.quantity import Quantity, larger, power_of_two, smaller, where
from costmodel.extract.statement import LoopInfo
from sketch.target.target import Target

# Of the ways: lines beyond them until which all are gone when they are read again.
_ALL_GONE = 4.0 / 3.0


def evicted_lines(
    read: Access,
    unrolled: tuple[tuple[LoopInfo, Quantity], ...],
    reduced: tuple[LoopInfo, ...],
    target: Target,
) -> Quantity:
    """Lines that a step of a register tile fetches again from the second cache.

    Args:
        read: one element for each copy of the tile that it moves with.
        unrolled: loops of the tile and their extents.
        reduced: loops that walk along the sum.
        target: for the sizes of lines, pages and the first cache.
    """
    line, page = float(target.cache_line_bytes), target.rates.page_bytes
    ways = max(target.l1_bytes / page, 1.0)
    lines: Quantity = 1.0
    apart: Quantity = page
    for loop, extent in unrolled:
        if not read.uses(loop.var):
            continue
        step = read.address_step(loop) * read.element_bytes
        alone = (larger(step, -step) >= line) & (extent > 1.0)
        lines = lines * where(alone, extent, 1.0)
        apart = smaller(apart, where(alone, power_of_two(step, page), page))
    in_a_set = lines / smaller(lines, page / larger(apart, line))
    gone = smaller(larger(in_a_set - ways, 0.0) / (_ALL_GONE * ways), 1.0)
    return lines * gone * where(_stays(read, reduced, line), 1.0, 0.0)


def _stays(read: Access, reduced: tuple[LoopInfo, ...], line: float) -> bool | NDArray[np.bool_]:
    """Whether the next trip along the sum reads the same lines again."""
    stays: bool | NDArray[np.bool_] = False
    for loop in reduced:
        step = read.address_step(loop) * read.element_bytes
        step = larger(step, -step)
        stays = stays | ((step > 0.0) & (step < line) & (loop.extent > 1.0))
    return stays
