"""Views of memory as torch's exporter shall translate them: elements by where they lie.

The exporter knows neither where a tensor begins in memory nor how its dimensions lie there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Places = NDArray[np.int64]


def strided_functions() -> dict[Any, Any]:
    """ATen operators and the functions to trace in their place."""
    import torch

    aten = torch.ops.aten
    return {
        aten.as_strided.default: _viewed,
        aten.as_strided_scatter.default: _written,
    }


def addresses(shape: Sequence[int], strides: Sequence[int], offset: int) -> _Places:
    """Where each element of a tensor is in memory."""
    places = np.full((1,) * len(shape), offset, np.int64)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        row = [-1 if axis == other else 1 for other in range(len(shape))]
        places = places + (np.arange(extent) * stride).reshape(row)
    return places


def places_of_view(x: Any, size: Sequence[int], stride: Sequence[int], offset: int) -> _Places:
    """Which element of a tensor each one of a view is; -1: none of them.

    Args:
        x: the tensor, which may have no elements; its memory is that of the trace.
        size: of the view.
        stride: of the view, by its dimensions.
        offset: where the view begins in memory.
    """
    wanted = addresses(size, stride, offset)
    own = addresses(x.shape, x.stride(), x.storage_offset())
    last = max((int(places.max()) for places in (own, wanted) if places.size), default=0)
    found = np.full(last + 1, -1)
    found[own.reshape(-1)] = np.arange(own.size)
    return found[wanted]


def _viewed(x: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Not of memory beyond the tensor's own."""
    places = _own_places(x, size, stride, storage_offset)
    if places is None:
        return NotImplemented
    return x.reshape(-1).index_select(0, places.reshape(-1)).reshape(size)


def _written(x: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """The result lies in memory as the tensor does, on which other views of it rely."""
    places = _own_places(x, size, stride, storage_offset)
    if places is None or not x.is_contiguous():
        return NotImplemented
    return x.reshape(-1).index_put([places.reshape(-1)], src.reshape(-1)).reshape(x.shape)


def _own_places(x: Any, size: Any, stride: Any, storage_offset: int | None) -> Any:
    """Which element of a tensor each one of a view is, computed: exported graphs have no tables.

    None if some are no elements of the tensor, or where shapes are not known.
    """
    import torch

    if not all(isinstance(number, int) for number in (*x.shape, *x.stride(), *size, *stride)):
        return None
    begin = x.storage_offset()
    offset = begin if storage_offset is None else storage_offset
    if (places_of_view(x, size, stride, offset) < 0).any():
        return None
    rest = torch.full(tuple(size), offset - begin)
    for axis, step in enumerate(stride):
        row = [-1 if other == axis else 1 for other in range(len(size))]
        rest = rest + torch.arange(size[axis]).reshape(row) * step
    places = torch.zeros_like(rest)
    for axis in _outermost_first(x):
        step = x.stride(axis)
        places = places + rest.div(step, rounding_mode="floor") * prod(x.shape[axis + 1 :])
        rest = rest % step
    return places


def _outermost_first(x: Any) -> list[int]:
    """Dimensions of several elements, those whose elements are furthest apart first."""
    axes = [axis for axis in range(x.dim()) if x.shape[axis] > 1 and x.stride(axis)]
    return sorted(axes, key=lambda axis: -x.stride(axis))
