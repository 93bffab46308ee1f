"""How far results are from the oracle."""

from __future__ import annotations

import numpy as np


def relative_error(result: np.ndarray, expected: np.ndarray) -> float:
    """Relative to the largest value; infinite where NaN or infinities differ."""
    found = result.astype(np.float64)
    wanted = np.asarray(expected, np.float64).reshape(result.shape)
    finite = np.isfinite(wanted)
    if not np.array_equal(found[~finite], wanted[~finite], equal_nan=True):
        return np.inf
    scale = max(np.abs(wanted[finite]).max(initial=0.0), 1e-9)
    return float(np.abs(found[finite] - wanted[finite]).max(initial=0.0) / scale)
