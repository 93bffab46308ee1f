"""Serial loops over the terms of a shared tile that a GPU kernel has as straight-line code."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketch.nest.loopnest import LoopVar, Scope, Store
from sketch.nest.walk import index_variables, store_loads

Count = float | NDArray[Any]

# The same of terms that are tested one by one, whose operands are loaded one by one: they take the
# compiler eight times as long.
_MOST_TESTED: Final = 256

# Copies of a term up to which loops are written out: a branch less, and loads of the next term
# overlap this one.  About 16 KB of code, which takes NVRTC a quarter of a second.
_MOST_COPIES: Final = 1024

# Elements that the copies load, up to which they are: the compiler's time grows faster than with
# their number, to 2 s for 1,200 of them.
_MOST_LOADS: Final = 640


def taps_are_tested(store: Store, reduces: Collection[LoopVar]) -> bool:
    """Whether each term of a reduction is tested, as a tap in the padding of an image is not
    multiplied: by something about a result's place and about the term, which no zeros in a tile
    make superfluous.

    Args:
        store: the reduction.
        reduces: variables of all reduce loops.
    """
    if store.reducer is None:
        return False
    found = ({var for var, _ in p.index.terms} for p in store.predicates)
    return any(used & set(reduces) and used - set(reduces) for used in found)


def loads_of(store: Store, copies: Mapping[LoopVar, Count]) -> Count:
    """Elements of other memory than a thread's own that copies of a statement load.

    Args:
        store: the statement.
        copies: how many there are, by variable.
    """
    total: Count = 0
    for load in store_loads(store):
        if load.buffer.scope is not Scope.LOCAL:
            found = set[LoopVar]().union(*map(index_variables, load.indices))
            each: Count = 1
            for var in found:
                each = each * copies.get(var, 1)
            total = total + each
    return total


def written_out(
    copies: Count, loads: Count, serial: Sequence[Count], tested: bool = False
) -> tuple[Count, ...]:
    """How many trips of each loop become copies: all of them, or 1 from the first loop on that
    would make too many.

    Args:
        copies: of the term inside all of them.
        loads: of these copies, of elements.
        serial: trips of the loops, innermost first.
        tested: whether each copy has a test of its own.
    """
    most = _MOST_TESTED if tested else _MOST_COPIES
    trips: list[Count] = []
    for extent in serial:
        copies, loads = copies * extent, loads * extent
        trips.append(np.where((copies <= most) & (loads <= _MOST_LOADS), extent, 1))
    return tuple(trips)
