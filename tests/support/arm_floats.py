"""Sums of bfloat16 products as units of Arm round them, without extended behaviour."""

from __future__ import annotations

import numpy as np

_LOST = (1 << 29) - 1  # digits that float32 has less than float64


def odd(values: np.ndarray) -> np.ndarray:
    """Float64 rounded to odd as float32: toward 0, and the last digit is 1 if anything was lost."""
    bits = values.view(np.int64)
    return ((bits & ~_LOST) | np.where(bits & _LOST, _LOST + 1, 0)).view(np.float64)


def sums_of_pairs(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """``lhs @ rhs`` as float32, [m, k] and [k, n]: two products are added, then both to the sum.

    Exact where float64 holds every sum, which is so for numbers near each other.
    """
    wide, other = lhs.astype(np.float64), rhs.astype(np.float64)
    total = np.zeros((lhs.shape[0], rhs.shape[1]))
    for k in range(0, lhs.shape[1], 2):
        pair = odd(wide[:, k, None] * other[k] + wide[:, k + 1, None] * other[k + 1])
        total = odd(total + pair)
    return total.astype(np.float32)
