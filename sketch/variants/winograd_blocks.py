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
Dilated taps meet every d-th element: results whose places leave the same rest by d, a residue, are
a correlation without gaps.  Tiles of a residue hold every d-th result, and a block all residues.
Tiles keep their two coordinates, so that a nest over blocks of m x m results holds all stages:
nothing of the size of an image lies between them.  Errors of six points are about three times
those of the direct sum, of eight points ten times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Axis, Const, Expr, select
from sketch.lang.prepared import LinearMap
from sketch.lang.tensor import Compute, Placeholder, Tensor, compute, reduce_axis
from sketch.operators.window import inside
from sketch.variants.correlation import Correlation, correlation
from sketch.variants.filtering import Filtering
from sketch.variants.interpolation import (
    EIGHT_POINTS,
    F2_3,
    FIVE_POINTS,
    SIX_POINTS,
    THREE_POINTS,
    Point,
)
from sketch.variants.rebuild import rebuild

By = TypeVar("By", bound=Filtering)


def winograd_three(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its correlations of two taps by three points: F(2, 2)."""
    return _filtered(dag, THREE_POINTS)


def winograd_four(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its correlations by four points: F(2, 3), F(3, 2)."""
    return _filtered(dag, F2_3, shorter=THREE_POINTS)


def winograd_four_in_lines(dag: ComputeDAG) -> ComputeDAG | None:
    """``winograd_four`` along one of two dimensions: more products, but three quarters of the
    filters, where reading those takes most of the time.
    """

    def lines(match: Correlation) -> Filtering | None:
        both = Filtering(match, F2_3)
        narrow = len(both.dims) > 1 and both.filters_prevail
        return replace(both, dimensions=1) if narrow and both.pays else None

    return with_filters(dag, lines, filtered)


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

    def fewest(match: Correlation) -> Filtering | None:
        filtering, other = Filtering(match, points, stride), Filtering(match, shorter, stride)
        as_few = other.dims == filtering.dims and other.products <= filtering.products
        return filtering if filtering.pays and not as_few else None

    return with_filters(dag, fewest, filtered)


def with_filters(
    dag: ComputeDAG,
    choose: Callable[[Correlation], By | None],
    make: Callable[[By, Tensor], Tensor],
) -> ComputeDAG | None:
    """The program with its correlations as chosen; None where none is.

    Args:
        dag: the program.
        choose: how to compute a correlation; None: as it is.
        make: the results of a correlation of the data.
    """
    found: dict[int, By] = {}
    for op in dag.stages:
        match = correlation(op)
        filtering = None if match is None else choose(match)
        if filtering is not None:
            found[id(op)] = filtering
    if not found:
        return None

    def replacement(op: Compute, current: Callable[[Tensor], Tensor]) -> Tensor | None:
        filtering = found.get(id(op))
        return None if filtering is None else make(filtering, current(filtering.match.data))

    return rebuild(dag, replacement)


def filtered(by: Filtering, data: Tensor) -> Tensor:
    """The results of the correlation of ``data`` [N, *spatial, C]."""
    return results_of(by, _products(by, _transformed(by, data)))


def results_of(by: Filtering, products: Tensor) -> Tensor:
    """``A^T`` of the products of every tile, under the correlation's name."""
    op = by.match.op
    sums = _columns(by, products) if len(by.dims) > 1 else products
    last = by.dims[-1]

    def element(n: Axis, *rest: Axis) -> Expr:
        *places, o = rest
        tiles, within = _tile_of(by, places)
        terms = [
            sums[n, *tiles, within[by.dims[0]], j, o] if len(by.dims) > 1 else sums[j, n, *tiles, o]
            for j in range(by.size(last))
        ]
        return chosen(within[last], by.summed(last, terms))

    names = [axis.name for axis in op.axes]
    found = compute(op.shape, element, op.name, axis_names=names)
    assert isinstance(found.op, Compute)
    return Tensor(replace(found.op, store=op.store))


def _tile_of(by: Filtering, places: Sequence[Expr]) -> tuple[list[Expr], dict[int, Expr]]:
    """The tile of a result, and by dimension which of its results that is."""
    tiles, within = list(places), {}
    for dim in sorted(by.dims, key=by.place):
        place, residue, spacing = by.place(dim), by.residue(dim), by.match.spacings[dim]
        element = tiles[place] % by.block(dim)
        tiles[place] = tiles[place] // by.block(dim)
        within[dim] = element if residue is None else element // spacing
        if residue is not None:
            tiles.insert(residue, element % spacing)
    return tiles, within


def _transformed(by: Filtering, data: Tensor) -> Tensor:
    """``B^T d B`` of every tile: [i, j, N, *spatial with R and S for H and W, C].  Dimensions
    that are not transformed are those of the data.
    """
    name, last = by.match.op.name, by.dims[-1]
    shape = by.shape
    for dim in by.plain:
        shape[by.place(dim)] = data.shape[1 + dim]
    sizes = tuple(map(by.size, by.dims))
    whole = (*sizes, data.shape[0], *shape, data.shape[-1])
    if len(by.dims) == 1:

        def line(i: Axis, n: Axis, *rest: Axis) -> Expr:
            *places, c = rest
            elements = (_moved(by, places, last, b) for b in range(by.reads(last)))
            terms = [element_of(by, data, n, here, c) for here in elements]
            return chosen(i, by.combined(last, terms))

        return compute(whole, line, f"{name}.tiles")
    rows, phase = _rows(by, data, shape), by.match.kernel[last].phase

    def tile(i: Axis, j: Axis, n: Axis, *rest: Axis) -> Expr:
        *places, c = rest
        terms = []
        for b in range(by.reads(last)):
            here = _moved(by, places, last, b)
            if phase is not None:
                here[phase] = Const(0, "int64")
            terms.append(rows[n, *here, i, c])
        return chosen(j, by.combined(last, terms))

    return compute(whole, tile, f"{name}.tiles")


def _rows(by: Filtering, data: Tensor, shape: Sequence[int]) -> Tensor:
    """``B^T`` over the first of two dimensions; all phases of the other read the same rows:
    [N, *spatial with R for H and W as far as it is read, i, C].
    """
    first, last = by.dims
    place, index = by.place(last), by.match.kernel[last]
    walked = list(shape)
    walked[place] = (shape[place] - 1) * by.results(last) * by.stride + by.reads(last)
    if index.phase is not None:
        walked[place] += index.slope * (index.phases - 1)
        walked[index.phase] = 1

    def row(n: Axis, *rest: Axis) -> Expr:
        *places, i, c = rest
        elements = (_moved(by, places, first, a) for a in range(by.reads(first)))
        terms = [element_of(by, data, n, here, c) for here in elements]
        return chosen(i, by.combined(first, terms))

    whole = (data.shape[0], *walked, by.size(first), data.shape[-1])
    return compute(whole, row, f"{by.match.op.name}.rows")


def element_of(by: Filtering, data: Tensor, n: Expr, places: Sequence[Expr], c: Expr) -> Expr:
    """Of the data, or zero outside of them.

    Args:
        by: how a correlation is computed.
        data: [N, *spatial, C].
        n: of the batch.
        places: coordinates from the first padded element, or from the first of a residue.
        c: the channel.
    """
    here = [places[by.place(dim)] for dim in range(len(by.match.places))]
    for dim in by.dims:
        residue = by.residue(dim)
        if residue is not None:
            here[dim] = here[dim] * by.match.spacings[dim] + places[residue]
        here[dim] = here[dim] - by.match.before[dim]
    known = inside(*((here[dim], data.shape[1 + dim]) for dim in by.dims))
    value = data[n, *here, c]
    return value if known is None else select(known, value, 0.0)


def _moved(by: Filtering, places: Sequence[Expr], dim: int, step: int) -> list[Expr]:
    """The coordinates of an element of a tile, moved by the phase."""
    found, index = list(places), by.match.kernel[dim]
    start = places[by.place(dim)] * (by.results(dim) * by.stride) + step
    if index.phase is not None:
        start = start + places[index.phase] * index.slope
    found[by.place(dim)] = start
    return found


def _products(by: Filtering, tiles: Tensor) -> Tensor:
    """Of every tile with every filter, summed over the channels and the taps of dimensions that
    are not transformed: [i, j, N, *spatial with R and S for H and W, O].
    """
    match, count, weight = by.match, len(by.dims), transformed_filters(by)
    k = reduce_axis(tiles.shape[-1], match.op.reduce_axes[-1].name)
    named = {d: axis for d in by.plain if (axis := match.taps[d]) is not None}
    taps = {d: reduce_axis(axis.extent, axis.name) for d, axis in named.items()}

    def product(*axes: Axis) -> Expr:
        points, (n, *rest) = axes[:count], axes[count:]
        *places, o = rest
        here: list[Expr] = list(places)
        row: Expr | int = 0
        transformed = iter(points)
        for dim, index in enumerate(match.kernel):
            if dim in by.dims:
                row = row if index.phase is None else row * index.phases + places[index.phase]
                row = row * by.size(dim) + next(transformed)
                continue
            place = by.place(dim)
            here[place] = places[place] * match.strides[dim] - match.before[dim]
            if dim in taps:
                here[place] = here[place] + taps[dim]
                row = row * by.taps[dim] + taps[dim]
        single = (0,) * (weight.ndim - 3)  # trailing dimensions of one tap stay
        value = tiles[(*points, n, *here, k)] * weight[(row, *single, k, o)]
        known = inside(*((here[by.place(d)], match.data.shape[1 + d]) for d in by.plain))
        value = value if known is None else select(known, value, 0.0)
        return reducers.sum(value, axis=(*taps.values(), k))

    ends = match.op.shape[0], match.op.shape[-1]
    whole = (*(by.size(d) for d in by.dims), ends[0], *by.shape, ends[1])
    return compute(whole, product, f"{match.op.name}.products")


def _columns(by: Filtering, products: Tensor) -> Tensor:
    """``A^T`` over the first dimension of every tile: [N, *spatial, a, j, O]."""
    _, _, batch, *spatial, filters = products.shape
    first = by.dims[0]

    def element(n: Axis, *rest: Axis) -> Expr:
        *places, a, j, o = rest
        terms = [products[(i, j, n, *places, o)] for i in range(by.size(first))]
        return chosen(a, by.summed(first, terms))

    shape = (batch, *spatial, by.results(first), by.size(by.dims[-1]), filters)
    return compute(shape, element, f"{by.match.op.name}.columns")


def transformed_filters(by: Filtering) -> Tensor:
    """The transformed filters of every channel, computed ahead: [taps or points, C, O]."""
    op = by.match.weight.op
    assert isinstance(op, Placeholder)
    matrix: NDArray[np.float64] = np.ones((1, 1))
    for dim, index in enumerate(by.match.kernel):
        single = by.filters_of(dim) if dim in by.dims else np.eye(index.extent)
        matrix = np.kron(matrix, single).astype(np.float64)
    prepared = LinearMap(op.shape, tuple(map(tuple, matrix.tolist())))
    shape = prepared.result_shape
    return Tensor(Placeholder(op.name, shape, op.dtype, constant=True, prepared=prepared))


def chosen(index: Expr, values: Sequence[Expr]) -> Expr:
    """``values[index]``: the others are not evaluated where the index is known."""
    found = values[-1]
    for number in range(len(values) - 2, -1, -1):
        found = select(index < number + 1, values[number], found)
    return found
