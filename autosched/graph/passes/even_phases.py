"""Transposed convolutions of integers as one product: zeros around the taps of their weights.

    stride 2, 3 taps      phases of outputs have 2 taps and 1     ->     4 taps, 2 for each phase

Phases of one form are one stage, whose weights are packed as tensor units take them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Final

import numpy as np

from autosched.graph.ops.base import Shape
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.passes.integer_layers import IntegerLayer
from sketch.lang.dtypes import size_of
from sketch.operators.phases import TransposedWindow

# Products for one of float32, by the bytes of a factor: units compute more of them in its time.
_MOST_PRODUCTS: Final = {1: 4.0, 2: 1.5}


def in_even_phases(layer: IntegerLayer, shape: Shape) -> IntegerLayer | None:
    """A layer whose phases have one form; others than transposed convolutions as they are.  None:
    there are such phases in no way, or with so many zeros that floats take less time.

    Args:
        layer: of integers.
        shape: of its data, ``[n, c, *spatial]``.
    """
    op, weight = layer.op, layer.filters.weight
    if not isinstance(op, ConvTranspose):
        return layer
    rank = op.spatial
    kernel = weight.shape[2:]
    grown = [_grown(_window(op, shape[2:], kernel, d)) for d in range(rank)]
    found = [window for window in grown if window is not None]
    most = _MOST_PRODUCTS.get(size_of(layer.factor.dtype), 0.0)
    if len(found) < rank or prod(w.kernel for w in found) > most * prod(kernel):
        return None
    low, high = (tuple(getattr(w, side) for w in found) for side in ("before", "after"))
    ahead = [now - was for now, was in zip(low, op.padding[:rank], strict=True)]
    behind = [now - was for now, was in zip(high, op.padding[rank:], strict=True)]
    taps = np.pad(weight, [(0, 0), (0, 0), *zip(ahead, behind, strict=True)])
    op = replace(op, padding=(*low, *high))
    return replace(layer, op=op, filters=replace(layer.filters, weight=taps))


def _window(op: ConvTranspose, extents: Shape, kernel: Shape, d: int) -> TransposedWindow:
    return TransposedWindow(
        extents[d], kernel[d], op.strides[d], op.dilation[d], op.padding[d],
        op.padding[op.spatial + d], op.output_padding[d],
    )  # fmt: skip


def _grown(window: TransposedWindow) -> TransposedWindow | None:
    """A window of the same sums whose phases have one form, with zeros behind its taps, or on both
    sides; None: there is none.
    """
    return next((w for w in _longer(window) if len(w.ranges()) == 1), None)


def _longer(window: TransposedWindow) -> Iterator[TransposedWindow]:
    yield window
    if window.dilation > 1:
        return
    for ahead in (0, -window.before % window.stride):
        behind = -(window.kernel + ahead) % window.stride
        yield replace(
            window,
            kernel=window.kernel + ahead + behind,
            before=window.before + ahead,
            after=window.after + behind,
        )
