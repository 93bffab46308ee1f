"""Forms of operators whose indices are data.

Indices out of range, which we clamp or leave out, are errors in ONNX.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from autosched.graph.ir import Array
from autosched.graph.ops.gather import (
    Gather,
    GatherElements,
    GatherPoints,
    OneHot,
    ReverseSequence,
)
from autosched.graph.ops.resample import Resample
from autosched.graph.ops.scatter import SendAlong
from autosched.onnx.export.resize import resized
from autosched.onnx.export.terms import (
    Given,
    GivenValue,
    OnnxCall,
    Part,
    as_index,
    call,
    cast,
    converted,
    integers,
    reshaped,
    scalar,
    stored,
)
from sketch.lang.reducers import highest, lowest

_REDUCTIONS: Final = {"last": "none", "sum": "add", "prod": "mul", "max": "max", "min": "min"}


def gather(op: Gather, given: Given) -> OnnxCall:
    """Gather."""
    data, indices = given.operands
    return call("Gather", data, as_index(indices), axis=op.axis)


def gather_elements(op: GatherElements, given: Given) -> OnnxCall:
    """GatherElements."""
    data, indices = given.operands
    return call("GatherElements", data, as_index(indices), axis=op.axis)


def gather_points(op: GatherPoints, given: Given) -> OnnxCall:
    """GatherND."""
    data, indices = given.operands
    return call("GatherND", data, as_index(indices), batch_dims=op.batch)


def one_hot(op: OneHot, given: Given) -> OnnxCall:
    """OneHot; onnxruntime has it of few types, of others it chooses between both values."""
    indices, values = given.operands
    direct = values.dtype in ("float32", "int64")
    # an index without dimensions is not taken
    places = as_index(indices) if indices.rank else reshaped(as_index(indices), (1,))
    both = values if direct else integers((0, 1))
    found = call("OneHot", places, scalar(op.depth, "int64"), both, axis=op.axis)
    hot = found if indices.rank else reshaped(found, (op.depth,))
    return hot if direct else _chosen(cast(hot, "bool"), values)


def _chosen(hot: OnnxCall, values: GivenValue) -> OnnxCall:
    """The second of two values where ``hot``, else the first."""
    off, on = (call("Gather", values, scalar(place, "int64"), axis=0) for place in (0, 1))
    if values.dtype == "bool":
        return call("Or", call("And", hot, on), call("And", call("Not", hot), off))
    wide = "int32" if values.dtype == "int16" else values.dtype
    both = (converted(value, values.dtype, wide) for value in (on, off))
    return stored(call("Where", hot, *both), wide, values.dtype)


def reverse_sequence(op: ReverseSequence, given: Given) -> OnnxCall:
    """ReverseSequence, whose axes are the first two."""
    data, lengths = given.operands
    axes = (op.batch_axis % data.rank, op.time_axis % data.rank)
    order = (*axes, *(axis for axis in range(data.rank) if axis not in axes))
    moved = sorted(axes) != [0, 1]
    source = call("Transpose", data, perm=order) if moved else data
    batch, time = (0, 1) if moved else axes
    found = call("ReverseSequence", source, as_index(lengths), batch_axis=batch, time_axis=time)
    return call("Transpose", found, perm=np.argsort(order).tolist()) if moved else found


def send_along(op: SendAlong, given: Given) -> OnnxCall:
    """ScatterElements, whose places have the shape of the updates.

    Which of several updates of one place is the last, ONNX leaves open; onnxruntime takes ours.
    """
    places, updates = given.operands[-2:]
    data: Part = given.data if op.extent is None else _nothing(op, given)
    where = as_index(places)
    if places.shape != updates.shape:
        where = call("Expand", where, integers(updates.shape))
    return call(
        "ScatterElements", data, where, updates, axis=op.axis, reduction=_REDUCTIONS[op.function]
    )


def _nothing(op: SendAlong, given: Given) -> OnnxCall:
    """Elements that no update has changed."""
    dtype = given.result.dtype
    identity = {"sum": 0, "prod": 1, "max": lowest(dtype), "min": highest(dtype)}[op.function]
    return call("Expand", scalar(identity, dtype), integers(given.result.shape))


def resample(op: Resample, given: Given) -> OnnxCall:
    """Resize, where the tables are those of a common one; else a Gather and a weighted sum."""
    data, positions, weights = given.operands
    axis = op.axis % data.rank
    if positions.array is not None and weights.array is not None:
        places = _inside(positions.array, data.shape[axis])
        if places.shape[1] == 1 and np.all(weights.array == 1):
            return call("Gather", data, places[:, 0], axis=axis)
        found = resized(data, axis, places, weights.array)
        if found is not None:
            return found
        return _weighted(data, axis, places, weights)
    return _weighted(data, axis, as_index(positions), weights)


def _inside(positions: Array, extent: int) -> Array:
    """Positions counted from the front, and clamped."""
    places = positions.astype(np.int64)
    return np.clip(np.where(places < 0, places + extent, places), 0, extent - 1)


def _weighted(data: GivenValue, axis: int, positions: Part, weights: GivenValue) -> OnnxCall:
    wide = converted(data, data.dtype, weights.dtype)
    taps = call("Gather", wide, positions, axis=axis)
    ones = (1,) * (data.rank - axis - 1)
    products = call("Mul", taps, reshaped(weights, (*weights.shape, *ones)))
    total = call("ReduceSum", products, integers((axis + 1,)), keepdims=0)
    return stored(total, weights.dtype, data.dtype)
