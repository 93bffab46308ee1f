"""Serial loops over the terms of a shared tile that a GPU kernel has as straight-line code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Count = float | NDArray[Any]

# Copies of a term up to which loops are written out: a branch less, and loads of the next term
# overlap this one.  About 16 KB of code, which takes NVRTC a quarter of a second.
_MOST_COPIES: Final = 1024


def written_out(copies: Count, serial: Sequence[Count]) -> tuple[Count, ...]:
    """How many trips of each loop become copies: all of them, or 1 from the first loop on that
    would make too many.

    Args:
        copies: of the term inside all of them.
        serial: trips of the loops, innermost first.
    """
    trips: list[Count] = []
    for extent in serial:
        copies = copies * extent
        trips.append(np.where(copies <= _MOST_COPIES, extent, 1))
    return tuple(trips)
