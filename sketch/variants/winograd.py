"""Winograd's minimal filtering F(2x2, 3x3): 16 products for four results where there were 36.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR 2016), section 4.1:
``Y = A^T [(G g G^T) * (B^T d B)] A``.  Every 4x4 tile of the data (tiles overlap by two) is
transformed, the products of all tiles, channels and filters are 16 matrix products, and each result
is a sum of nine of them.  The filters are constants, so they are transformed when they are packed.

The matrices come from interpolation points (``sketch.variants.interpolation``).  ``A^T`` and
``B^T``, which the program computes, stand here as indices and signs.

The errors of F(2x2, 3x3) are about twice those of the direct sum; larger tiles save more products,
but their errors grow fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Axis, Expr, select
from sketch.lang.functions import all_of, maximum, minimum
from sketch.lang.prepared import LinearMap
from sketch.lang.tensor import Compute, Placeholder, Tensor, compute, reduce_axis
from sketch.operators.window import inside
from sketch.variants.correlation import Correlation, correlation
from sketch.variants.interpolation import F2_3, transforms
from sketch.variants.rebuild import rebuild

_TAPS: Final = 3
_AXES: Final = 4  # no phases
_TILE: Final = len(F2_3)
_RESULTS: Final = _TILE + 1 - _TAPS  # of a tile, in each dimension
# The transforms cost additions for each channel and filter: few of the others do not pay for them.
_LEAST_CHANNELS: Final = 16
# Transformed data and products take four times the memory of data and results.
_MOST_BYTES: Final = 1 << 29
# Products that keep a block of threads busy, and blocks that are two for a processor of most GPUs.
_BLOCK: Final = 2048
_BLOCKS: Final = 256
_LEAST_TERMS: Final = 32


def winograd(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its 3x3 correlations computed so; None where it has none."""
    return _with_filters(dag, lambda match: 1)


def winograd_in_parts(dag: ComputeDAG) -> ComputeDAG | None:
    """``winograd`` for machines of many processors: where there are few products, their sums over
    channels are split into parts, and the results are sums over the parts, too.
    """
    return _with_filters(dag, _parts)


def _with_filters(dag: ComputeDAG, parts: Callable[[Correlation], int]) -> ComputeDAG | None:
    found = {id(op): match for op in dag.stages if (match := correlation(op)) and _pays(match)}
    if not found:
        return None

    def replacement(op: Compute, current: Callable[[Tensor], Tensor]) -> Tensor | None:
        match = found.get(id(op))
        return None if match is None else _filtered(match, current(match.data), parts(match))

    return rebuild(dag, replacement)


def _pays(match: Correlation) -> bool:
    if match.strides != (1, 1) or match.places != (0, 1) or len(match.op.axes) != _AXES:
        return False
    if match.spacings != (1, 1):
        return False
    channels, filters = match.weight.shape[2:]
    single = match.op.output_dtypes[0] == match.data.dtype == match.weight.dtype == "float32"
    size = _TILE**2 * _tiles(match) * (channels + filters) * size_of("float32")
    pays = min(channels, filters) >= _LEAST_CHANNELS and size <= _MOST_BYTES
    return single and pays and match.weight.shape[:2] == (_TAPS, _TAPS)


def _tiles(match: Correlation) -> int:
    batch, height, width, _ = match.op.shape
    return batch * -(-height // _RESULTS) * -(-width // _RESULTS)


def _parts(match: Correlation) -> int:
    """The least power of two that makes blocks enough, and divides the channels."""
    channels, filters = match.weight.shape[2:]
    blocks, parts = _TILE**2 * _tiles(match) * filters // _BLOCK, 1
    while parts * blocks < _BLOCKS and channels % (2 * parts * _LEAST_TERMS) == 0:
        parts *= 2
    return parts


def _filtered(match: Correlation, data: Tensor, parts: int) -> Tensor:
    """The results of a correlation of ``data``; the sums over channels in ``parts``."""
    op, (_, height, width, _) = match.op, match.op.shape
    channels = data.shape[3]
    rows, columns = -(-height // _RESULTS), -(-width // _RESULTS)
    tiles = _tiles(match)
    top, left = match.before
    weight = _transformed_filters(match.weight)

    def tile(x: Expr, t: Expr, c: Expr) -> Expr:
        """Element x = 4 i + j of ``B^T d B``; both factors take one element from another."""
        n, r, s = t // (rows * columns), t // columns % rows, t % columns
        (a0, a1), (b0, b1) = _pair(x // _TILE), _pair(x % _TILE)

        def element(a: Expr, b: Expr) -> Expr:
            h, w = r * _RESULTS + a - top, s * _RESULTS + b - left
            value = data[n, h, w, c]
            known = inside((h, data.shape[1]), (w, data.shape[2]))
            return value if known is None else select(known, value, 0.0)

        sign_a, sign_b = _sign(x // _TILE), _sign(x % _TILE)
        first = element(a0, b0) + sign_b * element(a0, b1)
        return first + sign_a * (element(a1, b0) + sign_b * element(a1, b1))

    transformed = compute((_TILE**2, tiles, channels), tile, f"{op.name}.tiles")
    products = _products(transformed, weight, op, parts)
    part = reduce_axis(parts, "part")
    inside_part = (part,) if parts > 1 else ()

    def result(n: Axis, h: Axis, w: Axis, o: Axis) -> Expr:
        """``A^T m A``: in each dimension m0 + m1 + m2 for the first result, m1 - m2 - m3 for the
        second.
        """
        t = (n * rows + h // _RESULTS) * columns + w // _RESULTS
        a, b = h % _RESULTS, w % _RESULTS
        total: Expr | None = None
        for i in range(3):
            for j in range(3):
                term = products[(*inside_part, (a + i) * _TILE + b + j, t, o)]
                term = _turned(term, a, i > 0)
                term = _turned(term, b, j > 0)
                total = term if total is None else total + term
        assert total is not None
        return reducers.sum(total, axis=part) if parts > 1 else total

    names = [axis.name for axis in op.axes]
    results: Tensor = compute(op.shape, result, op.name, axis_names=names)
    return results


def _products(transformed: Tensor, weight: Tensor, op: Compute, parts: int) -> Tensor:
    """Of every tile with every filter, ``[16, T, O]``; ``[P, 16, T, O]`` where there are parts."""
    count, tiles, channels = transformed.shape
    filters, name = weight.shape[-1], f"{op.name}.products"
    k = reduce_axis(channels // parts, op.reduce_axes[-1].name)

    def product(x: Expr, t: Expr, o: Expr, c: Expr) -> Expr:
        return reducers.sum(transformed[x, t, c] * weight[x, c, o], axis=k)

    if parts == 1:
        return compute((count, tiles, filters), lambda x, t, o: product(x, t, o, k), name)
    shape = (parts, count, tiles, filters)
    return compute(shape, lambda p, x, t, o: product(x, t, o, p * k.extent + k), name)


def _pair(i: Expr) -> tuple[Expr, Expr]:
    """Which elements ``B^T`` takes for element i: (0, 2), (1, 2), (1, 2), (1, 3)."""
    return minimum(i, 1), maximum(i, 2)


def _sign(i: Expr) -> Expr:
    """Sign of the second element: -, +, -, -."""
    return select(all_of(i > 0, i < 2), 1.0, -1.0)


def _turned(term: Expr, result: Expr, turns: bool) -> Expr:
    """The sign of a term in ``A^T``: minus in the second result, but for its first term."""
    return term * select(result > 0, -1.0, 1.0) if turns else term


def _transformed_filters(weight: Tensor) -> Tensor:
    """``G g G^T`` of every channel and filter, [16, C, O]."""
    op = weight.op
    assert isinstance(op, Placeholder)
    single = np.array(transforms(F2_3, _TAPS).filters, dtype=np.float64)
    matrix = np.kron(single, single)
    shape = (len(matrix), *op.shape[2:])
    prepared = LinearMap(op.shape, tuple(map(tuple, matrix.tolist())))
    return Tensor(Placeholder(op.name, shape, op.dtype, constant=True, prepared=prepared))
