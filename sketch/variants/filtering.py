"""How a correlation is divided into tiles that minimal filtering computes with fewer products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketch.lang.dtypes import size_of
from sketch.lang.expr import Expr
from sketch.variants.combinations import combinations
from sketch.variants.correlation import Correlation
from sketch.variants.interpolation import SIX_POINTS, Point, Transforms, strided

# The transforms cost additions for each channel and filter: few of the others do not pay for them.
LEAST_CHANNELS: Final = 16
_MOST_BYTES: Final = 1 << 29
_LEAST_RESULTS: Final = 2
# Six points do well for windows of three taps, with a third of the error.
_LONG_WINDOW: Final = 5
# Measured: faster at 16, of 7x7 images of 512 channels; slower at 3, of 14x14 images of 256.
_PREVAILING: Final = 8
# A block holds tiles of all residues: with longer ones what they make would leave a core's cache.
_LONGEST_BLOCK: Final = 16


@dataclass(frozen=True, slots=True)
class Filtering:
    """A correlation by minimal filtering with the transforms of ``points``.

    Attributes:
        match: the correlation.
        points: of the dimensions that are transformed.
        stride: that of those dimensions.
        dimensions: how many are transformed at most.
    """

    match: Correlation
    points: tuple[Point, ...]
    stride: int = 1
    dimensions: int = 2

    @property
    def dims(self) -> tuple[int, ...]:
        """The spatial dimensions that are transformed: the last ones with taps enough."""
        most = (len(self.points) + 1 - _LEAST_RESULTS) * self.stride
        wide = [
            d
            for d, (taps, stride) in enumerate(zip(self.taps, self.match.strides, strict=True))
            if self.stride < taps <= most and stride == self.stride and self._even(taps)
        ]
        found = tuple(wide[-self.dimensions :])
        phases = {d for d, index in enumerate(self.match.kernel) if index.phase is not None}
        slopes = [self.match.kernel[d].slope for d in phases]
        spaced = {d for d, spacing in enumerate(self.match.spacings) if spacing > 1}
        short = all(self.block(d) <= _LONGEST_BLOCK for d in spaced & set(found))
        fits = short and phases | spaced <= set(found) and min(slopes, default=0) >= 0
        fits = fits and not (phases and spaced)  # residues would come between places of phases
        return found if fits else ()

    def _even(self, taps: int) -> bool:
        """Whether the sums of stride 1 have equally many taps, or one."""
        return {len(range(q, taps, self.stride)) for q in range(self.stride)} <= {
            1,
            -(-taps // self.stride),
        }

    @property
    def pays(self) -> bool:
        """Whether it may be faster than the direct sum, and fits the memory."""
        match, dims = self.match, self.dims
        if not dims or (len(self.points) > len(SIX_POINTS) and max(self.taps) < _LONG_WINDOW):
            return False
        channels, filters = match.data.shape[-1], match.op.shape[-1]
        single = {match.op.output_dtypes[0], match.data.dtype, match.weight.dtype} == {"float32"}
        taps = prod(self.taps[d] for d in dims)
        size = self.products * (channels + filters) * size_of("float32")
        fewer = self.products < taps * prod(match.op.shape[:-1])
        return single and fewer and min(channels, filters) >= LEAST_CHANNELS and size < _MOST_BYTES

    @property
    def filters_prevail(self) -> bool:
        """Whether reading the transformed filters takes most of the time: they are that much larger
        than the transformed data and the products.
        """
        channels, filters = self.match.data.shape[-1], self.match.op.shape[-1]
        tiles = self.match.op.shape[0] * prod(self.shape)
        return channels * filters >= _PREVAILING * tiles * (channels + filters)

    @property
    def products(self) -> int:
        """Products of a channel and a filter, but for taps of dimensions that stay."""
        return self.match.op.shape[0] * prod(self.shape) * prod(map(self.size, self.dims))

    @property
    def taps(self) -> tuple[int, ...]:
        """By dimension."""
        return tuple(1 if axis is None else axis.extent for axis in self.match.taps)

    @property
    def shape(self) -> list[int]:
        """Extents between the batch and the filters, tiles for places in transformed dimensions,
        each followed by its residues where taps are dilated.
        """
        shape = list(self.match.op.shape[1:-1])
        for dim in self.dims:
            place = self.match.places[dim]
            shape[place] = -(-shape[place] // self.block(dim))
        for dim in sorted(self.dims, key=self.place):
            if self.residue(dim) is not None:
                shape.insert(self.place(dim) + 1, self.match.spacings[dim])
        return shape

    def place(self, dim: int) -> int:
        """Position in ``shape`` of a dimension."""
        sides = zip(self.match.places, self.match.spacings, strict=True)
        place = self.match.places[dim]
        return place + sum(other < place and spacing > 1 for other, spacing in sides)

    def residue(self, dim: int) -> int | None:
        """Position in ``shape`` of the residues of a dimension; None where there is one."""
        return self.place(dim) + 1 if self.match.spacings[dim] > 1 else None

    def block(self, dim: int) -> int:
        """Neighbouring results of a tile of each residue."""
        return self.results(dim) * self.match.spacings[dim]

    @property
    def plain(self) -> list[int]:
        """The dimensions that are not transformed."""
        return [dim for dim in range(len(self.match.places)) if dim not in self.dims]

    def size(self, dim: int) -> int:
        """Products of a tile in a dimension."""
        return len(self.matrices(dim).data)

    def reads(self, dim: int) -> int:
        """Elements of the data that a tile reads in a dimension."""
        return len(self.matrices(dim).data[0])

    def results(self, dim: int) -> int:
        """Results of a tile in a dimension."""
        return len(self.matrices(dim).results)

    def matrices(self, dim: int) -> Transforms:
        """The transforms of a dimension."""
        return strided(self.points, self.taps[dim], self.stride)

    def combined(self, dim: int, terms: Sequence[Expr]) -> list[Expr]:
        """``B^T`` of the elements of a tile."""
        return combinations(self.matrices(dim).data, terms)

    def summed(self, dim: int, terms: Sequence[Expr]) -> list[Expr]:
        """``A^T`` of the products of a tile."""
        return combinations(self.matrices(dim).results, terms)

    def filters_of(self, dim: int) -> NDArray[np.float64]:
        """``G`` of the taps of every phase, over all elements of the weight in a dimension."""
        single, index = np.array(self.matrices(dim).filters, np.float64), self.match.kernel[dim]
        found = np.zeros((index.phases, len(single), index.extent))
        for phase in range(index.phases):
            for tap in range(self.taps[dim]):
                column = index.start + index.step * tap + index.turn * phase
                found[phase, :, column] = single[:, tap]
        return found.reshape(-1, index.extent)
