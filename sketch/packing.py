"""Packing of constants: a pure re-index with zero padding, decided by a sketch and its row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketch.lower.placement import place
from sketch.sketch import Sketch


@dataclass(frozen=True, slots=True)
class Packing:
    """Panels of ``width`` along dimension ``dim`` of an array of ``logical_shape``.

    Memory order: [panel, other dimensions, within the panel].  Hashable, so that one packed copy
    serves every use of the same constant.
    """

    logical_shape: tuple[int, ...]
    dim: int
    width: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the packed array."""
        panels = -(-self.logical_shape[self.dim] // self.width)
        rest = tuple(e for d, e in enumerate(self.logical_shape) if d != self.dim)
        return (panels, *rest, self.width)

    @property
    def key(self) -> str:
        """Stable text form."""
        return f"panel(dim={self.dim}, width={self.width})"

    def apply(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """Pack ``array`` (shape ``logical_shape``, any dtype) into a new C-contiguous array."""
        panels = self.shape[0]
        padding = [(0, 0)] * array.ndim
        padding[self.dim] = (0, panels * self.width - array.shape[self.dim])
        padded = np.pad(array, padding)
        blocked = padded.reshape(
            *padded.shape[: self.dim], panels, self.width, *padded.shape[self.dim + 1 :]
        )
        moved = np.moveaxis(blocked, (self.dim, self.dim + 1), (0, -1))
        return np.ascontiguousarray(moved)


def packings(sketch: Sketch, values: Mapping[str, int]) -> dict[str, Packing]:
    """How each packed placeholder of ``sketch`` is laid out for one row of decisions."""
    shapes = {t.name: t.shape for t in sketch.dag.inputs}
    result = {}
    placement = place(sketch.program, values)
    for pack in sketch.program.packs:
        if pack.tensor in shapes:
            width = int(placement.panel_width(pack))
            result[pack.tensor] = Packing(shapes[pack.tensor], pack.dim, width)
    return result
