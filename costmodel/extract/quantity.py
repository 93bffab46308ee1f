"""Numbers of a nest as floats: a Python float where no decision enters, else float64 ``[P]``.

Both behave alike, so that a population with many fixed extents costs few array operations.  All
counts are products of integers and exact in float64 up to 2**53.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sketch.loopnest import Num

Floats = NDArray[np.float64]
Quantity = float | Floats


def to_quantity(value: Num) -> Quantity:
    """A ``Num`` as float(s)."""
    return value.astype(np.float64) if isinstance(value, np.ndarray) else float(value)


def is_one(value: Quantity) -> bool:
    """Whether a quantity is 1 in every program."""
    return isinstance(value, float) and value == 1.0


def smaller(a: Quantity, b: Quantity) -> Quantity:
    """Elementwise minimum."""
    if isinstance(a, float) and isinstance(b, float):
        return min(a, b)
    return np.minimum(a, b)


def larger(a: Quantity, b: Quantity) -> Quantity:
    """Elementwise maximum."""
    if isinstance(a, float) and isinstance(b, float):
        return max(a, b)
    return np.maximum(a, b)


def where(condition: bool | NDArray[np.bool_], a: Quantity, b: Quantity) -> Quantity:
    """``a`` where the condition holds, else ``b``."""
    if isinstance(condition, (bool, np.bool_)):
        return a if condition else b
    return np.where(condition, a, b)


def ceil(value: Quantity) -> Quantity:
    """Smallest integer not below."""
    return float(np.ceil(value)) if isinstance(value, float) else np.ceil(value)


def more_than_one(value: Quantity) -> Quantity:
    """1 where a loop has more than one trip, else 0."""
    if isinstance(value, float):
        return 1.0 if value > 1.0 else 0.0
    return (value > 1.0).astype(np.float64)


def stack(values: list[Quantity], count: int) -> Floats:
    """[len(values), P]."""
    result = np.empty((len(values), count))
    for row, value in enumerate(values):
        result[row] = value
    return result
