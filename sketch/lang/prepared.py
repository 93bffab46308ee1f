"""Constants that a program wants in another form than the caller has them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LinearMap:
    """A constant as a fixed linear function of the caller's, for all of its last elements alike.

    Attributes:
        shape: of the caller's array; ``matrix`` acts on its leading dimensions, flattened.
        matrix: rows of coefficients, a row for each element of the result's first dimension.
    """

    shape: tuple[int, ...]
    matrix: tuple[tuple[float, ...], ...]

    @property
    def key(self) -> str:
        """Stable text form."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:8]
        return f"linear({len(self.matrix)} x {len(self.matrix[0])}, {digest})"

    @property
    def result_shape(self) -> tuple[int, ...]:
        """``[rows, *trailing dimensions]``."""
        width, rest = len(self.matrix[0]), list(self.shape)
        while width > 1:
            width //= rest.pop(0)
        return (len(self.matrix), *rest)

    def apply(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """The constant, computed in float64 and rounded to the dtype of ``array`` (``shape``)."""
        matrix = np.array(self.matrix)
        values = matrix @ array.reshape(matrix.shape[1], -1).astype(np.float64)
        shape = self.result_shape
        assert prod(shape) == values.size
        return values.reshape(shape).astype(array.dtype)


@dataclass(frozen=True, slots=True)
class JoinedDimensions:
    """A constant with two of its dimensions as one, the elements of the inner one side by side.

    Attributes:
        shape: of the caller's array.
        outer: dimension that goes; (outer, inner) is element ``outer * extent + inner`` of the
            joined one, which takes the place of ``inner``.
        inner: the other dimension, after ``outer``.
    """

    shape: tuple[int, ...]
    outer: int
    inner: int

    @property
    def key(self) -> str:
        """Stable text form."""
        return f"joined({self.shape}, {self.outer}, {self.inner})"

    @property
    def result_shape(self) -> tuple[int, ...]:
        """``shape`` without ``outer``, and ``inner`` as long as both."""
        extents = list(self.shape)
        extents[self.inner] *= extents[self.outer]
        del extents[self.outer]
        return tuple(extents)

    def apply(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """The constant, a new C-contiguous array."""
        moved = np.moveaxis(array, self.outer, self.inner - 1)
        return np.ascontiguousarray(moved).reshape(self.result_shape)


Prepared = LinearMap | JoinedDimensions
"""How a constant is made from what the caller gives."""
