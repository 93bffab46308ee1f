"""Winograd's minimal filtering in blocks, for windows of any size in any number of dimensions.

``Y = A^T [(G g G^T) * (B^T d B)] A`` (Lavin and Gray, CVPR 2016, section 4.1), with matrices from
n interpolation points: n products for ``n + 1 - r`` results of r taps.  One or two dimensions are
transformed, each in a pass of its own; taps of other dimensions are summed with the products.  Of
an image [N, H, W, C]:

    rows(n, r, w, i, c)     = B^T over the rows of a tile's data
    tiles(i, j, n, r, s, c) = B^T over the columns
    products(i, j, n, r, s, o) += tiles * transformed filters
    columns(n, r, s, a, j, o) = A^T over i
    result(n, h, w, o)      = A^T over j, with r = h // m, a = h % m, s = w // m

Taps that meet the data at distances of a stride are sums of stride 1, each with its own points.
Tiles keep their two coordinates, so that a nest over blocks of m x m results holds all stages:
nothing of the size of an image lies between them.  Errors of six points are about three times
those of the direct sum, of eight points ten times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Axis, Const, Expr, select
from sketch.lang.prepared import LinearMap
from sketch.lang.tensor import Compute, Placeholder, Tensor, compute, reduce_axis
from sketch.operators.window import inside
from sketch.variants.combinations import combinations
from sketch.variants.correlation import Correlation, correlation
from sketch.variants.interpolation import (
    EIGHT_POINTS,
    F2_3,
    FIVE_POINTS,
    SIX_POINTS,
    THREE_POINTS,
    Point,
    Transforms,
    strided,
)
from sketch.variants.rebuild import rebuild

# The transforms cost additions for each channel and filter: few of the others do not pay for them.
_LEAST_CHANNELS: Final = 16
_MOST_BYTES: Final = 1 << 29
_LEAST_RESULTS: Final = 2
_MOST_DIMENSIONS: Final = 2
# Six points do well for windows of three taps, with a third of the error.
_LONG_WINDOW: Final = 5


def winograd_three(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its correlations of two taps by three points: F(2, 2)."""
    return _filtered(dag, THREE_POINTS)


def winograd_four(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its correlations by four points: F(2, 3), F(3, 2)."""
    return _filtered(dag, F2_3, shorter=THREE_POINTS)


def winograd_six(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its correlations by six points: F(4, 3), F(2, 5), F(5, 2)."""
    return _filtered(dag, SIX_POINTS, shorter=F2_3)


def winograd_eight(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its correlations of five taps and more by eight points."""
    return _filtered(dag, EIGHT_POINTS, shorter=SIX_POINTS)


def winograd_strided_three(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its correlations of stride 2 by three points: F(2, 3), F(2, 4)."""
    return _filtered(dag, THREE_POINTS, 2)


def winograd_strided_five(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its correlations of stride 2 by five points: F(4, 3), F(4, 4)."""
    return _filtered(dag, FIVE_POINTS, 2, THREE_POINTS)


def _filtered(
    dag: ComputeDAG,
    points: tuple[Point, ...],
    stride: int = 1,
    shorter: tuple[Point, ...] = (),
) -> ComputeDAG | None:
    """The program with the correlations of a stride by ``points``, where it has some for which that
    takes fewer products than the ``shorter`` tiles do.
    """
    found: dict[int, Filtering] = {}
    for op in dag.stages:
        match = correlation(op)
        if match is None:
            continue
        filtering, other = Filtering(match, points, stride), Filtering(match, shorter, stride)
        if filtering.pays and not (
            other.dims == filtering.dims and other.products <= filtering.products
        ):
            found[id(op)] = filtering
    if not found:
        return None

    def replacement(op: Compute, current: Callable[[Tensor], Tensor]) -> Tensor | None:
        filtering = found.get(id(op))
        return None if filtering is None else filtering.result(current(filtering.match.data))

    return rebuild(dag, replacement)


@dataclass(frozen=True, slots=True)
class Filtering:
    """A correlation by minimal filtering with the transforms of ``points``.

    ``stride``: that of the dimensions that are transformed.
    """

    match: Correlation
    points: tuple[Point, ...]
    stride: int = 1

    @property
    def dims(self) -> tuple[int, ...]:
        """The spatial dimensions that are transformed: the last ones with taps enough."""
        most = (len(self.points) + 1 - _LEAST_RESULTS) * self.stride
        wide = [
            d
            for d, (taps, stride) in enumerate(zip(self._taps, self.match.strides, strict=True))
            if self.stride < taps <= most and stride == self.stride and self._even(taps)
        ]
        found = tuple(wide[-_MOST_DIMENSIONS:])
        phases = {d for d, index in enumerate(self.match.kernel) if index.phase is not None}
        slopes = [self.match.kernel[d].slope for d in phases]
        return found if phases <= set(found) and min(slopes, default=0) >= 0 else ()

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
        if not dims or (len(self.points) > len(SIX_POINTS) and max(self._taps) < _LONG_WINDOW):
            return False
        channels, filters = match.data.shape[-1], match.op.shape[-1]
        single = {match.op.output_dtypes[0], match.data.dtype, match.weight.dtype} == {"float32"}
        taps = prod(self._taps[d] for d in dims)
        size = self.products * (channels + filters) * size_of("float32")
        fewer = self.products < taps * prod(match.op.shape[:-1])
        return single and fewer and min(channels, filters) >= _LEAST_CHANNELS and size < _MOST_BYTES

    @property
    def products(self) -> int:
        """Products of a channel and a filter, but for taps of dimensions that stay."""
        return self.match.op.shape[0] * prod(self._shape) * prod(map(self._size, self.dims))

    def result(self, data: Tensor) -> Tensor:
        """The results of the correlation of ``data`` [N, *spatial, C]."""
        op = self.match.op
        products = self._products(self._transformed(data))
        sums = self._columns(products) if len(self.dims) > 1 else products
        last = self.dims[-1]

        def element(n: Axis, *rest: Axis) -> Expr:
            *places, o = rest
            tiles: list[Expr] = list(places)
            within: dict[int, Expr] = {}
            for dim in self.dims:
                place = self.match.places[dim]
                tiles[place] = places[place] // self._results(dim)
                within[dim] = places[place] % self._results(dim)
            terms = [
                sums[n, *tiles, within[self.dims[0]], j, o]
                if len(self.dims) > 1
                else sums[j, n, *tiles, o]
                for j in range(self._size(last))
            ]
            return chosen(within[last], self._summed(last, terms))

        names = [axis.name for axis in op.axes]
        found = compute(op.shape, element, op.name, axis_names=names)
        assert isinstance(found.op, Compute)
        return Tensor(replace(found.op, store=op.store))

    @property
    def _taps(self) -> tuple[int, ...]:
        return tuple(1 if axis is None else axis.extent for axis in self.match.taps)

    @property
    def _shape(self) -> list[int]:
        """Extents between the batch and the filters, tiles for places in transformed dimensions."""
        shape = list(self.match.op.shape[1:-1])
        for dim in self.dims:
            shape[self.match.places[dim]] = -(-shape[self.match.places[dim]] // self._results(dim))
        return shape

    def _size(self, dim: int) -> int:
        """Products of a tile in a dimension."""
        return len(self._matrices(dim).data)

    def _reads(self, dim: int) -> int:
        """Elements of the data that a tile reads in a dimension."""
        return len(self._matrices(dim).data[0])

    def _results(self, dim: int) -> int:
        """Results of a tile in a dimension."""
        return len(self._matrices(dim).results)

    def _matrices(self, dim: int) -> Transforms:
        return strided(self.points, self._taps[dim], self.stride)

    def _combined(self, dim: int, terms: Sequence[Expr]) -> list[Expr]:
        """``B^T`` of the elements of a tile."""
        return combinations(self._matrices(dim).data, terms)

    def _summed(self, dim: int, terms: Sequence[Expr]) -> list[Expr]:
        """``A^T`` of the products of a tile."""
        return combinations(self._matrices(dim).results, terms)

    def _transformed(self, data: Tensor) -> Tensor:
        """``B^T d B`` of every tile: [i, j, N, *spatial with R and S for H and W, C].  Dimensions
        that are not transformed are those of the data.
        """
        name, last = self.match.op.name, self.dims[-1]
        shape = self._shape
        for dim in self._plain:
            shape[self.match.places[dim]] = data.shape[1 + dim]
        sizes = tuple(map(self._size, self.dims))
        whole = (*sizes, data.shape[0], *shape, data.shape[-1])
        if len(self.dims) == 1:

            def line(i: Axis, n: Axis, *rest: Axis) -> Expr:
                *places, c = rest
                elements = (self._moved(places, last, b) for b in range(self._reads(last)))
                terms = [self._element(data, n, here, c) for here in elements]
                return chosen(i, self._combined(last, terms))

            return compute(whole, line, f"{name}.tiles")
        rows, phase = self._rows(data, shape), self.match.kernel[last].phase

        def tile(i: Axis, j: Axis, n: Axis, *rest: Axis) -> Expr:
            *places, c = rest
            terms = []
            for b in range(self._reads(last)):
                here = self._moved(places, last, b)
                if phase is not None:
                    here[phase] = Const(0, "int64")
                terms.append(rows[n, *here, i, c])
            return chosen(j, self._combined(last, terms))

        return compute(whole, tile, f"{name}.tiles")

    def _rows(self, data: Tensor, shape: Sequence[int]) -> Tensor:
        """``B^T`` over the first of two dimensions; all phases of the other read the same rows:
        [N, *spatial with R for H and W as far as it is read, i, C].
        """
        first, last = self.dims
        place, index = self.match.places[last], self.match.kernel[last]
        walked = list(shape)
        walked[place] = (shape[place] - 1) * self._results(last) * self.stride + self._reads(last)
        if index.phase is not None:
            walked[place] += index.slope * (index.phases - 1)
            walked[index.phase] = 1

        def row(n: Axis, *rest: Axis) -> Expr:
            *places, i, c = rest
            elements = (self._moved(places, first, a) for a in range(self._reads(first)))
            terms = [self._element(data, n, here, c) for here in elements]
            return chosen(i, self._combined(first, terms))

        whole = (data.shape[0], *walked, self._size(first), data.shape[-1])
        return compute(whole, row, f"{self.match.op.name}.rows")

    def _element(self, data: Tensor, n: Expr, places: Sequence[Expr], c: Expr) -> Expr:
        """Of the data, at coordinates that count from the first padded one."""
        here = [places[place] for place in self.match.places]
        for dim in self.dims:
            here[dim] = here[dim] - self.match.before[dim]
        known = inside(*((here[dim], data.shape[1 + dim]) for dim in self.dims))
        value = data[n, *here, c]
        return value if known is None else select(known, value, 0.0)

    def _moved(self, places: Sequence[Expr], dim: int, step: int) -> list[Expr]:
        """The coordinates of an element of a tile, moved by the phase."""
        found, index = list(places), self.match.kernel[dim]
        start = places[self.match.places[dim]] * (self._results(dim) * self.stride) + step
        if index.phase is not None:
            start = start + places[index.phase] * index.slope
        found[self.match.places[dim]] = start
        return found

    @property
    def _plain(self) -> list[int]:
        """The dimensions that are not transformed."""
        return [dim for dim in range(len(self.match.places)) if dim not in self.dims]

    def _products(self, tiles: Tensor) -> Tensor:
        """Of every tile with every filter, summed over the channels and the taps of dimensions that
        are not transformed: [i, j, N, *spatial with R and S for H and W, O].
        """
        match, count, weight = self.match, len(self.dims), self._filters()
        k = reduce_axis(tiles.shape[-1], match.op.reduce_axes[-1].name)
        named = {d: axis for d in self._plain if (axis := match.taps[d]) is not None}
        taps = {d: reduce_axis(axis.extent, axis.name) for d, axis in named.items()}

        def product(*axes: Axis) -> Expr:
            points, (n, *rest) = axes[:count], axes[count:]
            *places, o = rest
            here: list[Expr] = list(places)
            row: Expr | int = 0
            transformed = iter(points)
            for dim, index in enumerate(match.kernel):
                if dim in self.dims:
                    row = row if index.phase is None else row * index.phases + places[index.phase]
                    row = row * self._size(dim) + next(transformed)
                    continue
                place = match.places[dim]
                here[place] = places[place] * match.strides[dim] - match.before[dim]
                if dim in taps:
                    here[place] = here[place] + taps[dim]
                    row = row * self._taps[dim] + taps[dim]
            single = (0,) * (weight.ndim - 3)  # trailing dimensions of one tap stay
            value = tiles[(*points, n, *here, k)] * weight[(row, *single, k, o)]
            known = inside(*((here[match.places[d]], match.data.shape[1 + d]) for d in self._plain))
            value = value if known is None else select(known, value, 0.0)
            return reducers.sum(value, axis=(*taps.values(), k))

        ends = match.op.shape[0], match.op.shape[-1]
        whole = (*(self._size(d) for d in self.dims), ends[0], *self._shape, ends[1])
        return compute(whole, product, f"{match.op.name}.products")

    def _columns(self, products: Tensor) -> Tensor:
        """``A^T`` over the first dimension of every tile: [N, *spatial, a, j, O]."""
        _, _, batch, *spatial, filters = products.shape
        first = self.dims[0]

        def element(n: Axis, *rest: Axis) -> Expr:
            *places, a, j, o = rest
            terms = [products[(i, j, n, *places, o)] for i in range(self._size(first))]
            return chosen(a, self._summed(first, terms))

        shape = (batch, *spatial, self._results(first), self._size(self.dims[-1]), filters)
        return compute(shape, element, f"{self.match.op.name}.columns")

    def _filters(self) -> Tensor:
        """The transformed filters of every channel, computed ahead: [taps or points, C, O]."""
        op = self.match.weight.op
        assert isinstance(op, Placeholder)
        matrix: NDArray[np.float64] = np.ones((1, 1))
        for dim, index in enumerate(self.match.kernel):
            single = self._of_phases(dim) if dim in self.dims else np.eye(index.extent)
            matrix = np.kron(matrix, single).astype(np.float64)
        prepared = LinearMap(op.shape, tuple(map(tuple, matrix.tolist())))
        shape = prepared.result_shape
        return Tensor(Placeholder(op.name, shape, op.dtype, constant=True, prepared=prepared))

    def _of_phases(self, dim: int) -> NDArray[np.float64]:
        """``G`` of the taps of every phase, over all elements of the weight in a dimension."""
        single, index = np.array(self._matrices(dim).filters, np.float64), self.match.kernel[dim]
        found = np.zeros((index.phases, len(single), index.extent))
        for phase in range(index.phases):
            for tap in range(self._taps[dim]):
                column = index.start + index.step * tap + index.turn * phase
                found[phase, :, column] = single[:, tap]
        return found.reshape(-1, index.extent)


def chosen(index: Expr, values: Sequence[Expr]) -> Expr:
    """``values[index]``: the others are not evaluated where the index is known."""
    found = values[-1]
    for number in range(len(values) - 2, -1, -1):
        found = select(index < number + 1, values[number], found)
    return found
