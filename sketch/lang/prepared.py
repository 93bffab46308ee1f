"""Constants that a program wants in another form than the caller has them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# Multiply-adds of a block of a product: NumPy's BLAS wakes its threads for more.
_BLOCK: Final = 1 << 18

# An uninitialised C-contiguous array of a shape and dtype.
Allocator = Callable[[Sequence[int], str], NDArray[Any]]


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

    def columns(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """``[elements of the leading dimensions, others]`` of the caller's array."""
        return array.reshape(len(self.matrix[0]), -1)

    def apply(
        self,
        array: NDArray[np.generic],
        empty: Allocator = np.empty,
        period: int | None = None,
    ) -> NDArray[np.generic]:
        """The constant, computed in float64 and rounded to the dtype of ``array`` (``shape``).

        Args:
            array: the caller's.
            empty: makes the result.
            period: the array repeats so many elements, and so does the result along its columns;
                None: no elements are known to be the same.
        """
        columns = self.columns(array)
        width = columns.shape[1]
        if period is None or period >= width:
            return _combined(self.matrix, columns, empty).reshape(self.result_shape)
        part = _combined(self.matrix, columns[:, :period], np.empty)
        out = empty((len(part), width), str(part.dtype))
        for start in range(0, width, period):
            out[:, start : start + period] = part[:, : width - start]
        return out.reshape(self.result_shape)


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

    def apply(self, array: NDArray[np.generic], empty: Allocator = np.empty) -> NDArray[np.generic]:
        """The constant, a new C-contiguous array; ``empty`` makes it."""
        moved = np.moveaxis(array, self.outer, self.inner - 1)
        out = empty(moved.shape, str(array.dtype))
        out[...] = moved
        return out.reshape(self.result_shape)


@dataclass(frozen=True, slots=True)
class CombinedParts:
    """Sums and differences of equal parts of a constant, such as the quadrants of a matrix.

    Attributes:
        shape: of the caller's array.
        parts: into how many each dimension is divided; they divide its extent.
        matrix: rows of coefficients of the parts, the last dimension's fastest; a row for each
            element of the result's first dimension.
    """

    shape: tuple[int, ...]
    parts: tuple[int, ...]
    matrix: tuple[tuple[int, ...], ...]

    @property
    def key(self) -> str:
        """Stable text form."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:8]
        return f"parts({len(self.matrix)} of {self.parts}, {digest})"

    @property
    def result_shape(self) -> tuple[int, ...]:
        """``[rows, *shape of a part]``."""
        sides = zip(self.shape, self.parts, strict=True)
        return (len(self.matrix), *(extent // count for extent, count in sides))

    def columns(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """``[parts, elements of a part]`` of the caller's array."""
        sides = zip(self.result_shape[1:], self.parts, strict=True)
        split = array.reshape([size for extent, count in sides for size in (count, extent)])
        outer = range(0, split.ndim, 2)
        return split.transpose(*outer, *(d + 1 for d in outer)).reshape(prod(self.parts), -1)

    def apply(self, array: NDArray[np.generic], empty: Allocator = np.empty) -> NDArray[np.generic]:
        """The constant, computed in float64 and rounded to the dtype of ``array`` (``shape``);
        ``empty`` makes it.
        """
        return _combined(self.matrix, self.columns(array), empty).reshape(self.result_shape)


@dataclass(frozen=True, slots=True)
class MovedCopies:
    """Copies of a constant side by side, each moved along one dimension, with zeros around it.

    Attributes:
        shape: of the caller's array.
        dimension: that the copies are moved along.
        sources: by place of the result in that dimension and by copy, which place of the caller's
            array is there; -1: zero.
    """

    shape: tuple[int, ...]
    dimension: int
    sources: tuple[tuple[int, ...], ...]

    @property
    def key(self) -> str:
        """Stable text form."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:8]
        return f"moved({len(self.sources)} x {len(self.sources[0])}, {digest})"

    @property
    def result_shape(self) -> tuple[int, ...]:
        """``shape`` with another extent of the dimension, and the last one of all copies."""
        extents = list(self.shape)
        extents[self.dimension] = len(self.sources)
        extents[-1] *= len(self.sources[0])
        return tuple(extents)

    def apply(self, array: NDArray[Any], empty: Allocator = np.empty) -> NDArray[Any]:
        """The constant, a new C-contiguous array; ``empty`` makes it."""
        out = empty(self.result_shape, str(array.dtype))
        given, made = (np.moveaxis(a, self.dimension, 0) for a in (array, out))
        width = self.shape[-1]
        for place, row in enumerate(self.sources):
            for copy, source in enumerate(row):
                part = made[place, ..., copy * width : (copy + 1) * width]
                part[...] = 0 if source < 0 else given[source]
        return out


def _combined(
    matrix: Sequence[Sequence[float]], columns: NDArray[np.generic], empty: Allocator
) -> NDArray[np.generic]:
    """``matrix @ columns`` in float64, rounded to the dtype of ``columns``; in blocks, so that no
    large array of float64 is made and no threads of NumPy are woken for a product of a few rows.
    """
    rows = np.array(matrix, np.float64)
    out = empty((len(rows), columns.shape[1]), str(columns.dtype))
    step = max(1, _BLOCK // rows.size)
    for start in range(0, columns.shape[1], step):
        part = slice(start, start + step)
        out[:, part] = rows @ columns[:, part].astype(np.float64)
    return out


Prepared = LinearMap | JoinedDimensions | CombinedParts | MovedCopies
"""How a constant is made from what the caller gives."""
