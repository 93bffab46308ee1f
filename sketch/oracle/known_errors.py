"""Error bounds of stages, and how those of sums grow with their terms."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sketch.lang.scalar_functions import Array
from sketch.lang.tensor import Compute, Tensor
from sketch.oracle.interpret import Values

# Roundings in units of |term|: some for the order of few terms (and for transformed ones, such as
# Winograd's), more for many.
_FEW: Final = 16.0
_PER_ROOT: Final = 4.0


def growth(terms: int) -> float:
    """How many roundings of the sum of absolute terms a sum of ``terms`` may be off."""
    return _FEW + _PER_ROOT * math.sqrt(terms)


def growths(terms: Array) -> Array:
    """The same of many sums."""
    found: Array = _FEW + _PER_ROOT * np.sqrt(terms)
    return found


class KnownErrors:
    """Error bounds of the stages so far; looked up by tensor, None where all are 0."""

    def __init__(self) -> None:
        self.values: Values = {}
        self._exact: set[tuple[int, int]] = set()

    def add(self, op: Compute, bounds: tuple[Array, ...]) -> None:
        """Keep a stage's bounds."""
        self.values[id(op)] = bounds
        self._exact |= {(id(op), n) for n, array in enumerate(bounds) if not array.any()}

    def __call__(self, tensor: Tensor) -> Array | None:
        known = self.values.get(id(tensor.op))
        exact = known is None or (id(tensor.op), tensor.output) in self._exact
        return None if exact or known is None else known[tensor.output]
