"""Floats that are whole multiples of one number a column: weights that were bytes once.

Files often hold them as floats; some importers make floats of them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_LEVELS: Final = 256  # of a byte
_PROBED: Final = 4  # columns that are looked at first
# Floats next to a quotient that the step may be.
_NEAR: Final = 2

Parts = tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32]]


def bytes_of(matrix: NDArray[np.float32]) -> Parts | None:
    """A matrix ``[k, n]`` as ``(integers - zero) * scale``, each element exactly (-0 is 0).

    Returns:
        int8 ``[k, n]``, or uint8; zero points and scales ``[1, n]``.  None: it is none.
    """
    if not np.isfinite(matrix).all():
        return None
    with np.errstate(all="ignore"):  # steps next to 0, which nothing is a multiple of
        steps = None if _steps(matrix[:, :_PROBED]) is None else _steps(matrix)
    if steps is None or (steps < np.finfo(np.float32).smallest_normal).any():
        return None  # kernels may take a denormal step, but not its multiples, for 0
    levels = np.rint(matrix / steps).astype(np.int16)
    low, high = int(levels.min()), int(levels.max())
    if low >= -_LEVELS // 2 and high < _LEVELS // 2:
        return levels.astype(np.int8), np.zeros_like(steps), steps
    if high - low >= _LEVELS:
        return None
    return (levels - low).astype(np.uint8), np.full_like(steps, -low), steps


def _steps(matrix: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """What the elements of each column are multiples of, ``[1, n]``; None: of nothing."""
    ordered = np.sort(matrix, axis=0)
    gaps = np.diff(ordered, axis=0, prepend=ordered[:1])
    least = np.where(gaps > 0, gaps, np.inf).min(axis=0, keepdims=True)
    largest = np.abs(matrix).max(axis=0, keepdims=True)
    # A column of one number is that number, once.
    whole = np.where(np.isfinite(least), np.rint(largest / least), 1)
    if (whole >= _LEVELS).any():
        return None
    whole = np.maximum(whole, 1).astype(np.float32)
    near = np.where(largest > 0, largest / whole, 1).astype(np.float32)
    found = np.zeros_like(near)
    for _ in range(_NEAR):
        near = np.nextafter(near, np.float32(0))
    for _ in range(2 * _NEAR + 1):
        fits = (np.rint(matrix / near) * near == matrix).all(axis=0, keepdims=True)
        found = np.where((found == 0) & fits, near, found)
        near = np.nextafter(near, np.float32(np.inf))
    return found if found.all() else None
