"""The largest or smallest elements of rows by NumPy's sort of integers, which is vector code.

An element and its position are one integer of 64 bits, so that positions come with the order, and
the first one of equal elements comes first:

    order of the element (32 bits) | position (32 bits)
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# A heap is faster where it takes a smaller share of a row than this.
_LEAST_SHARE: Final = 1 / 32
_POSITION_BITS: Final = 32
_POSITIONS: Final = (1 << _POSITION_BITS) - 1
_KEYS: Final = range(-(1 << 31), 1 << 31)
_INTEGERS_OF: Final = {"float32": "int32", "float16": "int16"}  # of as many bits
_FLOATS: Final = frozenset(_INTEGERS_OF)

Results = tuple[NDArray[Any], NDArray[np.int64]]


def first_in_order(data: NDArray[Any], count: int, axis: int, descending: bool) -> Results | None:
    """The first elements along a dimension and their positions; of equal ones the first one first.

    Args:
        data: numbers.
        count: how many.
        axis: the dimension.
        descending: the largest ones come first.

    Returns:
        None where a heap is faster, where keys have more than 32 bits, or an element is NaN.
    """
    if not data.ndim or not data.shape[axis] * _LEAST_SHARE <= count <= data.shape[axis]:
        return None
    rows = np.ascontiguousarray(np.moveaxis(data, axis, -1))
    keys = _keys(rows)
    if keys is None:
        return None
    if descending:
        np.invert(keys, out=keys)
    keys <<= _POSITION_BITS
    keys |= np.arange(rows.shape[-1])
    keys.sort(axis=-1)
    positions = keys[..., :count] & _POSITIONS
    values = np.take_along_axis(rows, positions, -1)
    return np.moveaxis(values, -1, axis), np.moveaxis(positions, -1, axis)


def _keys(rows: NDArray[Any]) -> NDArray[np.int64] | None:
    """Integers of 32 bits in the order of the elements, as int64."""
    if rows.size == 0:
        return None
    if rows.dtype.name in _FLOATS:
        if np.isnan(rows).any():
            return None
        bits = (rows + rows.dtype.type(0)).view(_INTEGERS_OF[rows.dtype.name])  # -0 becomes 0
        magnitude = np.iinfo(bits.dtype).max
        bits ^= (bits >> (8 * bits.itemsize - 1)) & magnitude
        return bits.astype(np.int64)
    if rows.dtype.kind not in "iu" or rows.dtype.name == "uint64":
        return None
    if rows.dtype.itemsize > 4 and not (int(rows.min()) in _KEYS and int(rows.max()) in _KEYS):
        return None
    wide = rows.astype(np.int64)
    return wide - (1 << 31) if rows.dtype.name == "uint32" else wide
