"""16-bit floats nearest to numbers: rounded once, to nearest, ties to even.

Numbers with more digits than a float32 go through a float32 that is *rounded to odd*: an inexact
one is the neighbour whose last bit is 1, which is never halfway between 16-bit floats, so that
rounding it again gives what rounding once would have given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketch.lang.dtypes import numpy_dtype

_DOUBLE_DIGITS = 53
_LOW_BITS = (1 << 11) - 1  # of an int64, whose other bits fit a float64


def storage_floats(values: Any, dtype: str) -> NDArray[Any]:
    """``values`` (floats, integers or bools) as float16 or bfloat16; overflow gives infinity."""
    array = np.asarray(values)
    with np.errstate(over="ignore", invalid="ignore"):
        if array.dtype.itemsize > 2 and array.dtype != np.float32:
            array = _odd_single(_exact_double(array))
        return np.asarray(array.astype(np.float32).astype(numpy_dtype(dtype)))


def _exact_double(values: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers as float64; integers with more digits are rounded to odd."""
    if values.dtype != np.int64:
        return values.astype(np.float64)
    odd = (((values & _LOW_BITS) + _LOW_BITS) | values) & ~_LOW_BITS
    limit = 1 << _DOUBLE_DIGITS
    return np.where((values >= -limit) & (values < limit), values, odd).astype(np.float64)


def _odd_single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    single = values.astype(np.float32)
    back = single.astype(np.float64)
    bits = single.view(np.int32) - (np.abs(back) > np.abs(values)).astype(np.int32)
    odd = bits | ((back != values) & (values == values)).astype(np.int32)
    return odd.view(np.float32)
