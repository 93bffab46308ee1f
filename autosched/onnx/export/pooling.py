"""Forms of pooling."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from autosched.graph.errors import GraphError
from autosched.graph.ir import Array
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.onnx.export.terms import Given, OnnxCall, call, converted, stored
from sketch.lang.dtypes import BYTES, is_float, numpy_dtype
from sketch.operators.window import Window


def global_pool(op: GlobalPool, given: Given) -> OnnxCall:
    """GlobalAveragePool or GlobalMaxPool."""
    return call("GlobalAveragePool" if op.mode == "avg" else "GlobalMaxPool", given.data)


def pool(op: Pool, given: Given) -> OnnxCall:
    """MaxPool or AveragePool, where these count as we do, else sums that are divided.

    Raises:
        GraphError: averages or sums of integers, or maxima of int64.
    """
    windows = list(_windows(op, given))
    if op.mode == "max":
        return _largest(windows, op, given)
    if not is_float(given.data.dtype):
        raise GraphError(f"{op} of {given.data.dtype} has no ONNX form")
    ends = [high for _, high in op.sides]
    beyond = any(window.after > high for window, high in zip(windows, ends, strict=True))
    dilated = any(window.dilation > 1 for window in windows)
    if op.mode == "avg" and not dilated and not (op.count_include_pad and beyond):
        counted = int(op.count_include_pad)
        return call(
            "AveragePool",
            given.data,
            kernel_shape=op.window,
            strides=op.strides,
            count_include_pad=counted,
            **_bounds(windows, op, given),
        )
    total = _sums(windows, given)
    if op.mode == "sum":
        return total
    return call("Div", total, _counts(windows, op, given.data.dtype))


def _windows(op: Pool, given: Given) -> Iterator[Window]:
    """The window of each dimension, with as much padding as the last one needs."""
    spatial = zip(given.data.shape[2:], given.result.shape[2:], strict=True)
    for d, (extent, count) in enumerate(spatial):
        low, _ = op.sides[d]
        reach = (op.window[d] - 1) * op.dilations[d] + 1
        after = max(0, (count - 1) * op.strides[d] + reach - low - extent)
        yield Window(extent, op.window[d], op.strides[d], op.dilations[d], low, after)


def _bounds(windows: list[Window], op: Pool, given: Given) -> dict[str, Any]:
    """The padding of the operator, with ``ceil_mode``, or as far as the last window reaches.

    Args:
        windows: of each dimension.
        op: the pooling.
        given: data and result.

    Windows that start behind the data, which we leave out, have not always been left out in ONNX.
    """
    counts = []
    for window, (low, high) in zip(windows, op.sides, strict=True):
        room = window.extent + low + high - window.reach
        counts.append(-(-room // window.stride) + 1 if op.ceil_mode else room // window.stride + 1)
    if tuple(counts) != given.result.shape[2:]:
        return {"pads": _pads(windows)}
    pads = (*(low for low, _ in op.sides), *(high for _, high in op.sides))
    return {"pads": pads, "ceil_mode": int(op.ceil_mode)}


def _pads(windows: list[Window]) -> tuple[int, ...]:
    return (*(window.before for window in windows), *(window.after for window in windows))


def _largest(windows: list[Window], op: Pool, given: Given) -> OnnxCall:
    own = given.data.dtype
    if own == "int64":
        raise GraphError(f"{op} of int64 has no ONNX form")
    wide = own if is_float(own) or own in BYTES else "float64"
    data = converted(given.data, own, wide)
    found = call(
        "MaxPool",
        data,
        kernel_shape=op.window,
        strides=op.strides,
        dilations=op.dilations,
        **_bounds(windows, op, given),
    )
    return stored(found, wide, own)


def _sums(windows: list[Window], given: Given) -> OnnxCall:
    """Sums of windows: each channel's convolution with ones."""
    channels, dtype = given.data.shape[1], given.data.dtype
    ones = np.ones((channels, 1, *(window.kernel for window in windows)), numpy_dtype(dtype))
    return call(
        "Conv",
        given.data,
        ones,
        group=channels,
        strides=[window.stride for window in windows],
        dilations=[window.dilation for window in windows],
        pads=_pads(windows),
    )


def _counts(windows: list[Window], op: Pool, dtype: str) -> Array:
    """How many elements each average is of."""
    each = []
    for window, (low, high) in zip(windows, op.sides, strict=True):
        count = (window.extent + window.before + window.after - window.reach) // window.stride + 1
        starts = np.arange(count)[:, None] * window.stride - window.before
        places = starts + np.arange(window.kernel) * window.dilation
        first, end = (-low, window.extent + high) if op.count_include_pad else (0, window.extent)
        each.append(((places >= first) & (places < end)).sum(axis=1))
    return functools.reduce(np.multiply.outer, each).astype(numpy_dtype(dtype))
