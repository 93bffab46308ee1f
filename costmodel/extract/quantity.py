"""Numbers of a nest as floats: a Python float where no decision enters, else float64 ``[P]``.

Both behave alike, so that a population with many fixed extents costs few array operations.  All
counts are products of integers and exact in float64 up to 2**53.  The arrays may be stand-ins of a
tape that is being recorded, so that only NumPy's functions and those below may look into them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sketch.nest.loopnest import Num
from sketch.population import tape
from sketch.population.tape import maximum, minimum, recordable

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Quantity = float | Floats


def to_quantity(value: Num) -> Quantity:
    """A ``Num`` as float(s)."""
    return float(value) if isinstance(value, int) else value.astype(np.float64)


def is_one(value: Quantity) -> bool:
    """Whether a quantity is 1 in every program."""
    return isinstance(value, float) and value == 1.0


def smaller(a: Quantity, b: Quantity) -> Quantity:
    """Elementwise minimum."""
    if isinstance(a, float) and isinstance(b, float):
        return min(a, b)
    least: Quantity = minimum(a, b)
    return least


def larger(a: Quantity, b: Quantity) -> Quantity:
    """Elementwise maximum."""
    if isinstance(a, float) and isinstance(b, float):
        return max(a, b)
    most: Quantity = maximum(a, b)
    return most


def where(condition: bool | NDArray[np.bool_], a: Quantity, b: Quantity) -> Quantity:
    """``a`` where the condition holds, else ``b``."""
    if isinstance(condition, (bool, np.bool_)):
        return a if condition else b
    if isinstance(a, float) and isinstance(b, float) and (a, b) == (1.0, 0.0):
        return condition.astype(np.float64)  # in a third of the time
    chosen: Quantity = tape.where(condition, a, b)
    return chosen


def ceil(value: Quantity) -> Quantity:
    """Smallest integer not below."""
    return float(np.ceil(value)) if isinstance(value, float) else np.ceil(value)


def more_than_one(value: Quantity) -> Quantity:
    """1 where a loop has more than one trip, else 0."""
    return where(value > 1.0, 1.0, 0.0)


@recordable
def power_of_two(value: Quantity, most: Quantity) -> Quantity:
    """The largest power of two that divides a whole number, up to ``most``, another power."""
    whole = np.asarray(value, dtype=np.int64) | np.asarray(most, dtype=np.int64)
    return (whole & -whole).astype(np.float64) if whole.ndim else float(whole & -whole)


@recordable
def stack(programs: Rows, *values: Quantity) -> Floats:
    """[len(values), P], for the programs 0 .. P-1."""
    result = np.empty((len(values), len(programs)))
    for row, value in enumerate(values):
        result[row] = value
    return result


def gather(levels: Floats, index: Rows, programs: Rows) -> Floats:
    """Entries ``levels[index[..., p], p]`` of [levels, P]; ``index`` is [P] or [K, P]."""
    # Two operations, as many matrices are read at the same places.
    return take(levels, places_of(index, programs))


@recordable
def places_of(index: Rows, programs: Rows) -> Rows:
    """Where ``take`` finds the entries ``index`` of [levels, P]."""
    return index * len(programs) + programs


@recordable
def take(levels: Floats, places: Rows) -> Floats:
    """Entries of [levels, P] at what ``places_of`` returns."""
    entries: Floats = levels.ravel().take(places)
    return entries


@recordable
def count_true(flags: NDArray[np.bool_]) -> Rows:
    """How many of the (at most 255) flags along the first dimension hold."""
    # Bytes are summed several times as fast as flags.
    return flags.view(np.uint8).sum(axis=0, dtype=np.uint8).astype(np.intp)
