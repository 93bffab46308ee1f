"""Values of a stage at some of its points: memory for those, whatever the shape of the stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sketch.lang.scalar_functions import Array
from sketch.lang.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class PointValues:
    """One output of a stage; indexed as an array is, by the points that are there only.

    Attributes:
        shape: of the whole output.
        positions: int64 [P], flat row-major positions of the points, ascending.
        values: [P].
    """

    shape: tuple[int, ...]
    positions: Array
    values: Array

    def __getitem__(self, indices: tuple[Array, ...]) -> Array:
        wanted = np.ravel_multi_index(indices, self.shape)
        found: Array = self.values[np.searchsorted(self.positions, wanted)]
        return found


Elements = Array | PointValues
ElementLoader = Callable[[Tensor], Elements]
