"""Element types by NumPy's names, those of ml_dtypes included."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np


@cache
def element_type(name: str) -> np.dtype[Any]:
    """The element type called ``name``; strings are ``object``.

    Raises:
        TypeError: there is no such type.
    """
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # registers bfloat16, float8 and the types below a byte

        return np.dtype(getattr(ml_dtypes, name, name))


def element_bytes(name: str) -> int:
    """Bytes that one element takes in an array."""
    return element_type(name).itemsize
