"""Forms of operators that move elements to places known in advance."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autosched.graph.ir import Array
from autosched.graph.ops.columns import Fold
from autosched.graph.ops.movement import Expand, Pick, Slice, Triangle
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose
from autosched.onnx.export.terms import (
    Given,
    OnnxCall,
    call,
    converted,
    in_wide,
    integers,
    reshaped,
    scalar,
    stored,
)
from sketch.operators.layout import Run


def reshape(op: Reshape, given: Given) -> OnnxCall:
    """Reshape."""
    return reshaped(given.data, op.shape)


def transpose(op: Transpose, given: Given) -> OnnxCall:
    """Transpose; an attribute without numbers would have no type."""
    if not op.permutation:
        return call("Identity", given.data)
    return call("Transpose", given.data, perm=op.permutation)


def concat(op: Concat, given: Given) -> OnnxCall:
    """Concat."""
    return call("Concat", *given.operands, axis=op.axis)


def pad(op: Pad, given: Given) -> OnnxCall:
    """Pad with a constant; onnxruntime has none of int16."""
    own = given.data.dtype
    wide = "int32" if own == "int16" else own
    data = converted(given.data, own, wide)
    padded = call("Pad", data, integers((*op.low, *op.high)), scalar(op.value, wide))
    return stored(padded, wide, own)


def slice_op(op: Slice, given: Given) -> OnnxCall:
    """Slice along the dimensions that are cut."""
    shape = given.data.shape
    bounds = list(zip(op.start, op.stop, op.step, shape, strict=True))
    cut = [axis for axis, (*bound, extent) in enumerate(bounds) if bound != [0, extent, 1]]
    if not cut:
        return call("Identity", given.data)
    # -1 would be the last element: what comes before the first one is further from the end
    ends = [bounds[axis][1] if bounds[axis][1] >= 0 else -shape[axis] - 1 for axis in cut]
    starts, steps = ([bounds[axis][part] for axis in cut] for part in (0, 2))
    return call("Slice", given.data, *(integers(each) for each in (starts, ends, cut, steps)))


def expand(op: Expand, given: Given) -> OnnxCall:
    """Expand."""
    return call("Expand", given.data, integers(op.shape))


def pick(op: Pick, given: Given) -> OnnxCall:
    """A Gather at the indices of the runs."""
    return call("Gather", given.data, integers(list(_indices(op.runs))), axis=op.axis)


def _indices(runs: tuple[Run, ...]) -> Iterator[int]:
    start = 0
    for run in runs:
        yield from (run.first + n // run.repeat * run.step for n in range(run.stop - start))
        start = run.stop


def triangle(op: Triangle, given: Given) -> OnnxCall:
    """Trilu; minus infinity instead of zero needs a mask."""
    if not op.hidden:
        diagonal = scalar(op.diagonal, "int64")
        return in_wide("Trilu", given, diagonal, upper=int(op.upper))
    outside = scalar(-np.inf, given.data.dtype)
    return call("Where", _kept(op, given.data.shape), given.data, outside)


def _kept(op: Triangle, shape: tuple[int, ...]) -> Array:
    rows, columns = (np.arange(extent) for extent in shape[-2:])
    distance = columns - rows[:, None]
    return distance >= op.diagonal if op.upper else distance <= op.diagonal


def fold(op: Fold, given: Given) -> OnnxCall:
    """Col2Im, whose blocks and positions are one dimension each."""
    batch, channels, *rest = given.data.shape
    points = math.prod(op.block)
    columns = reshaped(given.data, (batch, channels * points, math.prod(rest) // points))
    return call(
        "Col2Im",
        columns,
        integers(op.image),
        integers(op.block),
        dilations=op.dilation,
        pads=op.padding,
        strides=op.strides,
    )
