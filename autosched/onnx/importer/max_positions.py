"""Where the maxima of MaxPool come from: its second output."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.base import Shape
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.pooling import Pool
from autosched.graph.ops.reduce import ArgReduce
from autosched.graph.ops.shape import Reshape
from autosched.onnx.importer.site import Site, UnsupportedError

Int64 = NDArray[np.int64]


def emit_positions(site: Site, pool: Pool) -> None:
    """Emit output 1: the position of each maximum (its first) in the whole flattened data.

    Every window becomes a row of elements, of which the position of the largest is looked up.

    Raises:
        UnsupportedError: a window has no element.
    """
    batch, channels, *spatial = site.type(0).shape
    windows = pool.infer([site.type(0)]).shape[2:]
    taps, valid = _taps(tuple(spatial), windows, pool)
    if not valid.any(axis=1).all():
        raise UnsupportedError("a window lies outside the data")
    # Elements outside stand for the first one inside, which loses against no element before it.
    first = np.take_along_axis(taps, valid.argmax(axis=1)[:, None], axis=1)
    taps = np.where(valid, taps, first)
    elements = prod(spatial)
    flat = site.step(Reshape((batch, channels, elements)), [site.input(0)])
    rows = site.step(Gather(2), [flat, site.add_constant("elements", taps)])
    largest = site.step(ArgReduce("max", 3), [rows])
    starts = np.arange(len(taps)) * taps.shape[1]
    entry = site.step(BinaryOp("add"), [largest, site.add_constant("starts", starts)])
    numbers = taps.reshape(-1)
    if site.attributes.get("storage_order", 0):
        numbers = _by_columns(numbers, tuple(spatial))
    within = site.step(Gather(0), [site.add_constant("numbers", numbers), entry])
    planes = np.arange(batch * channels).reshape(batch, channels, 1) * elements
    whole = site.step(BinaryOp("add"), [within, site.add_constant("planes", planes)])
    site.emit(Reshape((batch, channels, *windows)), [whole], 1)


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
