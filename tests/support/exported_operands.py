"""Random operands of operators that are exported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from autosched.graph.ops.base import Op

RANDOM: Final = np.random.default_rng(3)
INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8")
Case = tuple[Op, tuple[Any, ...]]
"""An operator, and its operands."""


def floats(*shape: int, dtype: str = "float32") -> Any:
    """Normal random numbers."""
    return RANDOM.standard_normal(shape).astype(dtype)


def numbers(low: int, high: int, shape: Sequence[int], dtype: str = "int64") -> Any:
    """Random integers from ``low`` on, below ``high``.

    Args:
        low: the least.
        high: none is as large.
        shape: of the array.
        dtype: of the array.
    """
    return RANDOM.integers(low, high, shape).astype(dtype)


def truth(*shape: int) -> Any:
    """Random truth values."""
    return RANDOM.random(shape) < 0.5


MAP: Final = floats(2, 6, 9, 7)
FEW: Final = floats(3, 4, 5)


class Fixed:
    """An operand that is a constant."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)
