"""Where the maxima of windows come from."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.graph.appends import Appends
from autosched.graph.errors import GraphError
from autosched.graph.ops.base import Shape
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.pooling import Pool
from autosched.graph.ops.reduce import ArgReduce
from autosched.graph.ops.shape import Reshape

Int64 = NDArray[np.int64]


def max_positions(make: Appends, data: str, pool: Pool, by_columns: bool = False) -> str:
    """The position of each maximum (its first) in its flattened map, int64.

    Every window becomes a row of elements, of which the position of the largest is looked up.

    Args:
        make: adds operators.
        data: ``[n, c, *extents]``.
        pool: the pooling that finds the maxima.
        by_columns: whether positions count elements column by column.

    Raises:
        GraphError: a window has no element.
    """
    kind = make.type_of(data)
    batch, channels, *spatial = kind.shape
    windows = pool.infer([kind]).shape[2:]
    taps, valid = _taps(tuple(spatial), windows, pool)
    if not valid.any(axis=1).all():
        raise GraphError("a window lies outside the data")
    # Elements outside stand for the first one inside, which loses against no element before it.
    first = np.take_along_axis(taps, valid.argmax(axis=1)[:, None], axis=1)
    taps = np.where(valid, taps, first)
    flat = make.add(Reshape((batch, channels, prod(spatial))), data)
    rows = make.add(Gather(2), flat, make.array(taps))
    largest = make.add(ArgReduce("max", 3), rows)
    starts = np.arange(len(taps)) * taps.shape[1]
    entry = make.add(BinaryOp("add"), largest, make.array(starts))
    numbers = taps.reshape(-1)
    if by_columns:
        numbers = _by_columns(numbers, tuple(spatial))
    within = make.add(Gather(0), make.array(numbers), entry)
    return make.add(Reshape((batch, channels, *windows)), within)


def _taps(spatial: Shape, windows: Shape, pool: Pool) -> tuple[Int64, NDArray[np.bool_]]:
    """Positions ``[window, element]`` in a flattened map, and whether they lie in it."""
    rank = len(spatial)
    position, valid = np.zeros((1,) * 2 * rank, np.int64), np.ones((1,) * 2 * rank, np.bool_)
    for d, (low, _) in enumerate(pool.sides):
        start = np.arange(windows[d]) * pool.strides[d] - low
        place = start[:, None] + np.arange(pool.window[d]) * pool.dilations[d]
        shape = [1] * 2 * rank
        shape[d], shape[rank + d] = place.shape
        place = place.reshape(shape)
        position = position * spatial[d] + place
        valid = valid & (place >= 0) & (place < spatial[d])
    rows = (prod(windows), prod(pool.window))
    return position.reshape(rows), valid.reshape(rows)


def _by_columns(positions: Int64, spatial: Shape) -> Int64:
    """Positions in a map that is stored column by column."""
    numbers = np.arange(prod(spatial)).reshape(spatial[::-1]).T.reshape(-1)
    return numbers[positions]
