"""Minimal filtering of strided correlations of few channels: phases of taps become channels.

Of a stride s, taps p, p + s, p + 2 s, ... meet every s-th element of the data.  These phases, s in
each dimension, are correlations of stride 1 whose results are added:

    out[h, w, o] = sum over p, q, c, a, b of
        data[s (h + a) + p, s (w + b) + q, c] * weight[s a + p, s b + q, c, o]

With the same points for all of them, and zeros for taps that a phase lacks, they share ``A^T``:
each is as another channel.  A window of 7x7 and stride 2 over 3 channels takes, by seven points,
37 products for a result instead of 147: of 12 channels, 4x4 taps and tiles of 4x4 results.

    rows(n, r, i, p, c, w)        = B^T over the rows of a tile's data
    tiles(i, j, n, r, p, q, c, s) = B^T over the columns
    products(i, j, n, r, s, o)   += tiles * transformed filters

Channels are too few for vectors, so tiles next to each other are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Axis, Expr, Load, select
from sketch.lang.rewrite import rewrite, substitute_axes
from sketch.lang.tensor import Compute, Tensor, compute, reduce_axis
from sketch.operators.window import inside
from sketch.variants.correlation import Correlation
from sketch.variants.filtering import LEAST_CHANNELS, Filtering
from sketch.variants.interpolation import (
    SEVEN_POINTS,
    SIX_POINTS,
    Point,
    Transforms,
    transforms,
)
from sketch.variants.winograd_blocks import (
    chosen,
    element_of,
    results_of,
    transformed_filters,
    with_filters,
)

_DIMENSIONS: Final = 2
# Operations that the transform of a result takes, about: few channels do not hide it.
_TRANSFORM: Final = 12


def winograd_phases_six(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its strided correlations of few channels by six points."""
    return _by_phases(dag, SIX_POINTS)


def winograd_phases_seven(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its strided correlations of few channels by seven points."""
    return _by_phases(dag, SEVEN_POINTS)


def winograd_phases_six_by_seven(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its strided correlations of few channels by six points over the rows,
    and seven over the columns: half of the error of seven, for 14 % more products.
    """
    return _by_phases(dag, SIX_POINTS, SEVEN_POINTS)


def _by_phases(
    dag: ComputeDAG, points: tuple[Point, ...], columns: tuple[Point, ...] = ()
) -> ComputeDAG | None:
    def choose(match: Correlation) -> Phases | None:
        phases = Phases(match, points, match.strides[-1], columns=columns)
        return phases if phases.pays else None

    return with_filters(dag, choose, _filtered)


@dataclass(frozen=True, slots=True)
class Phases(Filtering):
    """A strided correlation whose phases are summed like channels.

    Attributes:
        columns: points of the last dimension, at least as many as ``points``; empty: the same.
    """

    columns: tuple[Point, ...] = ()

    def _even(self, taps: int) -> bool:
        return True

    def matrices(self, dim: int) -> Transforms:
        """The transforms of one phase, with as many taps as the first one has."""
        last = dim == len(self.match.places) - 1
        points = self.columns if last and self.columns else self.points
        return transforms(points, -(-self.taps[dim] // self.stride))

    @property
    def pays(self) -> bool:
        """Whether it may be faster than the direct sum."""
        match, dims = self.match, self.dims
        if self.stride == 1 or len(dims) != _DIMENSIONS:
            return False
        simple = all(index.phase is None for index in match.kernel) and max(match.spacings) == 1
        channels, filters = match.data.shape[-1], match.op.shape[-1]
        single = {match.op.output_dtypes[0], match.data.dtype, match.weight.dtype} == {"float32"}
        results = prod(match.op.shape[:-1])
        direct = prod(self.taps[d] for d in dims) * channels * results
        phases = self.stride**_DIMENSIONS * self.products * channels + _TRANSFORM * results
        fewer = phases < direct
        return simple and single and fewer and channels < LEAST_CHANNELS <= filters

    def filters_of(self, dim: int) -> NDArray[np.float64]:
        """``G`` of the taps of every phase: [points x phases, taps]."""
        single = np.array(self.matrices(dim).filters, np.float64)
        found = np.zeros((len(single), self.stride, self.taps[dim]))
        for tap in range(self.taps[dim]):
            found[:, tap % self.stride, tap] = single[:, tap // self.stride]
        return found.reshape(-1, self.taps[dim])


def _filtered(by: Phases, data: Tensor) -> Tensor:
    """The results of the correlation of ``data`` [N, *spatial, C]."""
    return results_of(by, _products(by, _tiles(by, _rows(by, data))))


def _rows(by: Phases, data: Tensor) -> Tensor:
    """``B^T`` over the first of two dimensions: [N, *spatial without W, i, p, C, W], with R for H
    and W as far as it is read.
    """
    first, last = by.dims
    spatial = by.shape
    for dim in by.plain:
        spatial[by.place(dim)] = data.shape[1 + dim]
    columns = spatial.pop(by.place(last))
    width = (columns - 1) * by.results(last) * by.stride + by.size(last) * by.stride
    shape = (data.shape[0], *spatial, by.size(first), by.stride, data.shape[-1], width)

    def row(n: Axis, *rest: Axis) -> Expr:
        *places, i, p, c, w = rest
        here: list[Expr] = [*places]
        here.insert(by.place(last), w)
        start, terms = here[by.place(first)] * (by.results(first) * by.stride) + p, []
        for a in range(by.size(first)):
            here[by.place(first)] = start + a * by.stride
            terms.append(element_of(by, data, n, here, c))
        return _read_through(data, chosen(i, by.combined(first, terms)))

    return compute(shape, row, f"{by.match.op.name}.rows")


def _read_through(data: Tensor, value: Expr) -> Expr:
    """``value`` without a copy that it reads, such as of the data in another order."""
    op, output = data.op, data.output
    if not isinstance(op, Compute) or not isinstance(op.bodies[output], Load):
        return value
    copied, axes = op.bodies[output], op.axes

    def leaf(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.tensor.op is op and node.tensor.output == output:
            return substitute_axes(copied, dict(zip(axes, node.indices, strict=True)))
        return None

    return rewrite(value, leaf)


def _tiles(by: Phases, rows: Tensor) -> Tensor:
    """``B^T`` over the other dimension: [i, j, N, *spatial without W, p, q, C, S]."""
    batch, *spatial, count, phases, channels, _ = rows.shape
    last = by.dims[-1]
    ends = (phases, by.stride, channels, by.shape[by.place(last)])

    def tile(i: Axis, j: Axis, n: Axis, *rest: Axis) -> Expr:
        *places, p, q, c, s = rest
        start = s * (by.results(last) * by.stride) + q
        columns = [start + b * by.stride for b in range(by.size(last))]
        terms = [rows[(n, *places, i, p, c, w)] for w in columns]
        return chosen(j, by.combined(last, terms))

    shape = (count, by.size(last), batch, *spatial, *ends)
    return compute(shape, tile, f"{by.match.op.name}.tiles")


def _products(by: Phases, tiles: Tensor) -> Tensor:
    """Of every tile with every filter, summed over phases, channels and the taps of dimensions
    that are not transformed: [i, j, N, *spatial with R and S for H and W, O].
    """
    match, weight = by.match, transformed_filters(by)
    _, last = by.dims
    p, q = reduce_axis(by.stride, "p"), reduce_axis(by.stride, "q")
    k = reduce_axis(match.data.shape[-1], match.op.reduce_axes[-1].name)
    named = {d: axis for d in by.plain if (axis := match.taps[d]) is not None}
    taps = {d: reduce_axis(axis.extent, axis.name) for d, axis in named.items()}

    def product(i: Axis, j: Axis, n: Axis, *rest: Axis) -> Expr:
        *places, o = rest
        here: list[Expr] = [*places]
        row: Expr | int = 0
        points = iter(((i, p), (j, q)))
        for dim in range(len(match.kernel)):
            if dim in by.dims:
                point, phase = next(points)
                row = (row * by.size(dim) + point) * by.stride + phase
            else:
                place = by.place(dim)
                here[place] = places[place] * match.strides[dim] - match.before[dim]
                if dim in taps:
                    here[place] = here[place] + taps[dim]
                    row = row * by.taps[dim] + taps[dim]
        known = inside(*((here[by.place(d)], match.data.shape[1 + d]) for d in by.plain))
        s = here.pop(by.place(last))
        single = (0,) * (weight.ndim - 3)  # trailing dimensions of one tap stay
        value = tiles[(i, j, n, *here, p, q, k, s)] * weight[(row, *single, k, o)]
        value = value if known is None else select(known, value, 0.0)
        return reducers.sum(value, axis=(*taps.values(), p, q, k))

    shape = (by.size(by.dims[0]), by.size(last), match.op.shape[0], *by.shape, match.op.shape[-1])
    return compute(shape, product, f"{match.op.name}.products")
