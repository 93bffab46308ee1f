"""Winograd's minimal filtering F(m x m, 3x3) for blocks: tiles keep their two coordinates.

``Y = A^T [(G g G^T) * (B^T d B)] A`` (Lavin and Gray, CVPR 2016, section 4.1) for any m, with
matrices from interpolation points.  Each transform is two passes, one a dimension:

    rows(n, r, w, i, c)     = B^T over the rows of a tile's data
    tiles(i, j, n, r, s, c) = B^T over the columns
    products(i, j, n, r, s, o) += tiles * transformed filters
    columns(n, r, s, a, j, o) = A^T over i
    result(n, h, w, o)      = A^T over j, with r = h // m, a = h % m, s = w // m

so that a nest over blocks of m x m results holds all of them: nothing of the size of an image lies
between the stages.  Errors of F(4x4, 3x3) are about three times those of the direct sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Axis, Expr, select
from sketch.lang.prepared import LinearMap
from sketch.lang.tensor import Compute, Placeholder, Tensor, compute, reduce_axis
from sketch.operators.window import inside
from sketch.variants.combinations import combinations
from sketch.variants.correlation import Correlation, correlation
from sketch.variants.interpolation import F4_3, Point, Transforms, transforms
from sketch.variants.rebuild import rebuild

_TAPS: Final = 3
# The transforms cost additions for each channel and filter: few of the others do not pay for them.
_LEAST_CHANNELS: Final = 16
_MOST_BYTES: Final = 1 << 29


def winograd_4x4(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its 3x3 correlations by F(4x4, 3x3); None where it has none."""
    found = {
        id(op): Filtering(match, F4_3)
        for op in dag.stages
        if (match := correlation(op)) and Filtering(match, F4_3).pays
    }
    if not found:
        return None

    def replacement(op: Compute, current: Callable[[Tensor], Tensor]) -> Tensor | None:
        filtering = found.get(id(op))
        return None if filtering is None else filtering.result(current(filtering.match.data))

    return rebuild(dag, replacement)


@dataclass(frozen=True, slots=True)
class Filtering:
    """A correlation by minimal filtering with the transforms of ``points``."""

    match: Correlation
    points: tuple[Point, ...]

    @property
    def _matrices(self) -> Transforms:
        return transforms(self.points, _TAPS)

    @property
    def _size(self) -> int:
        """Elements of a tile of the data in each dimension."""
        return len(self.points)

    @property
    def _results(self) -> int:
        return self._size + 1 - _TAPS

    @property
    def _tiles(self) -> tuple[int, int]:
        _, height, width, _ = self.match.op.shape
        return -(-height // self._results), -(-width // self._results)

    @property
    def pays(self) -> bool:
        """Whether it may be faster than the direct sum, and fits the memory."""
        match, (rows, columns) = self.match, self._tiles
        if match.weight.shape[:2] != (_TAPS, _TAPS):
            return False
        batch, height, width, filters = match.op.shape
        channels = match.data.shape[3]
        single = {match.op.output_dtypes[0], match.data.dtype, match.weight.dtype} == {"float32"}
        products = self._size**2 * batch * rows * columns
        size = products * (channels + filters) * size_of("float32")
        fewer = products < _TAPS**2 * batch * height * width
        return single and fewer and min(channels, filters) >= _LEAST_CHANNELS and size < _MOST_BYTES

    def result(self, data: Tensor) -> Tensor:
        """The results of the correlation of ``data`` [N, H, W, C]."""
        op, m = self.match.op, self._results
        columns = self._columns(self._products(self._transformed(data)))
        sums = self._matrices.results

        def element(n: Axis, h: Axis, w: Axis, o: Axis) -> Expr:
            terms = [columns[n, h // m, w // m, h % m, j, o] for j in range(self._size)]
            return chosen(w % m, combinations(sums, terms))

        names = [axis.name for axis in op.axes]
        found: Tensor = compute(op.shape, element, op.name, axis_names=names)
        return found

    def _transformed(self, data: Tensor) -> Tensor:
        """``B^T d B`` of every tile: [i, j, N, R, S, C]."""
        name, (batch, height, width, channels) = self.match.op.name, data.shape
        (rows, columns), m, size = self._tiles, self._results, self._size
        top, left = self.match.before

        def element(n: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
            value = data[n, h, w, c]
            known = inside((h, height), (w, width))
            return value if known is None else select(known, value, 0.0)

        def row(n: Axis, r: Axis, w: Axis, i: Axis, c: Axis) -> Expr:
            terms = [element(n, r * m + (a - top), w - left, c) for a in range(size)]
            return chosen(i, combinations(self._matrices.data, terms))

        walked = columns * m + _TAPS - 1
        passed = compute((batch, rows, walked, size, channels), row, f"{name}.rows")

        def tile(i: Axis, j: Axis, n: Axis, r: Axis, s: Axis, c: Axis) -> Expr:
            terms = [passed[n, r, s * m + b, i, c] for b in range(size)]
            return chosen(j, combinations(self._matrices.data, terms))

        shape = (size, size, batch, rows, columns, channels)
        return compute(shape, tile, f"{name}.tiles")

    def _products(self, tiles: Tensor) -> Tensor:
        """Of every tile with every filter, summed over the channels: [i, j, N, R, S, O]."""
        match = self.match
        weight = self._filters()
        k = reduce_axis(tiles.shape[-1], match.op.reduce_axes[-1].name)

        def product(i: Axis, j: Axis, n: Axis, r: Axis, s: Axis, o: Axis) -> Expr:
            value = tiles[i, j, n, r, s, k] * weight[i * self._size + j, k, o]
            return reducers.sum(value, axis=k)

        shape = (*tiles.shape[:-1], weight.shape[-1])
        return compute(shape, product, f"{match.op.name}.products")

    def _columns(self, products: Tensor) -> Tensor:
        """``A^T`` over the rows of every tile: [N, R, S, a, j, O]."""
        size, _, batch, rows, columns, filters = products.shape

        def element(n: Axis, r: Axis, s: Axis, a: Axis, j: Axis, o: Axis) -> Expr:
            terms = [products[i, j, n, r, s, o] for i in range(size)]
            return chosen(a, combinations(self._matrices.results, terms))

        shape = (batch, rows, columns, self._results, size, filters)
        return compute(shape, element, f"{self.match.op.name}.columns")

    def _filters(self) -> Tensor:
        """``G g G^T`` of every channel and filter, [i*size + j, C, O], computed ahead."""
        op = self.match.weight.op
        assert isinstance(op, Placeholder)
        single = np.array(self._matrices.filters, dtype=np.float64)
        matrix = np.kron(single, single)
        prepared = LinearMap(op.shape, tuple(map(tuple, matrix.tolist())))
        shape = (len(matrix), *op.shape[2:])
        return Tensor(Placeholder(op.name, shape, op.dtype, constant=True, prepared=prepared))


def chosen(index: Expr, values: Sequence[Expr]) -> Expr:
    """``values[index]``: the others are not evaluated where the index is known."""
    found = values[-1]
    for number in range(len(values) - 2, -1, -1):
        found = select(index < number + 1, values[number], found)
    return found
