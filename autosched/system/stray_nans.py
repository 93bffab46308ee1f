"""NaN among numbers: of a constant, it comes of damaged weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketch.lang.dtypes import is_float


def stray_nans(array: NDArray[Any]) -> int:
    """How many elements of a constant are NaN; 0 where all are: whoever fills an array means it."""
    if not is_float(str(array.dtype)):
        return 0
    count = int(np.isnan(array).sum())
    return count if count < array.size else 0
