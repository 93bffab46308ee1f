"""Forms of normalisations."""

from __future__ import annotations

import math

import numpy as np

from autosched.graph.ops.norm import BatchNorm, GroupNormalize, LocalResponseNorm, Normalize
from autosched.onnx.export.terms import (
    Given,
    GivenValue,
    OnnxCall,
    Part,
    call,
    integers,
    reshaped,
    scalar,
)
from sketch.lang.dtypes import numpy_dtype


def batch_norm(op: BatchNorm, given: Given) -> OnnxCall:
    """BatchNormalization."""
    return call("BatchNormalization", *given.operands, epsilon=op.epsilon)


def normalize(op: Normalize, given: Given) -> OnnxCall:
    """One operator with a scale of ones over the last or all spatial dimensions, else the formula.

    Without the mean it is the formula that onnxruntime makes one operator of.
    """
    data = given.data
    if not op.centered:
        squares = call("Pow", data, scalar(2, data.dtype))
        return call("Div", data, _root_of_mean(squares, op, data.dtype))
    if op.axes == tuple(range(op.axes[0], data.rank)):
        ones = np.ones(data.shape[op.axes[0] :], numpy_dtype(data.dtype))
        return call("LayerNormalization", data, ones, axis=op.axes[0], epsilon=op.epsilon)
    difference = call("Sub", data, call("ReduceMean", data, integers(op.axes), keepdims=1))
    squares = call("Mul", difference, difference)
    return call("Div", difference, _root_of_mean(squares, op, data.dtype))


def group_normalize(op: GroupNormalize, given: Given) -> OnnxCall:
    """LayerNormalization of the groups, channels first."""
    data = given.data
    first = (0, data.rank - 1, *range(1, data.rank - 1))
    moved = call("Transpose", data, perm=first)
    width = math.prod(data.shape[1:]) // op.groups
    rows = reshaped(moved, (data.shape[0], op.groups, width))
    ones = np.ones(width, numpy_dtype(data.dtype))
    normal = call("LayerNormalization", rows, ones, axis=2, epsilon=op.epsilon)
    back = reshaped(normal, tuple(data.shape[d] for d in first))
    return call("Transpose", back, perm=tuple(np.argsort(first).tolist()))


def _root_of_mean(squares: Part, op: Normalize, dtype: str) -> OnnxCall:
    mean = call("ReduceMean", squares, integers(op.axes), keepdims=1)
    return call("Sqrt", call("Add", mean, scalar(op.epsilon, dtype)))


def local_response_norm(op: LocalResponseNorm, given: Given) -> OnnxCall:
    """LRN over dimension 1 of four; onnxruntime has it of float32, and of odd sizes, alone."""
    data = given.data
    axis = op.axis % data.rank
    outer, inner = math.prod(data.shape[:axis]), math.prod(data.shape[axis + 1 :])
    maps = reshaped(data, (outer, data.shape[axis], inner, 1))
    if data.dtype != "float32" or op.size % 2 == 0:
        return _response_formula(op, data, reshaped(data, (outer, 1, data.shape[axis], inner)))
    found = call("LRN", maps, size=op.size, alpha=op.alpha, beta=op.beta, bias=op.bias)
    return reshaped(found, data.shape)


def _response_formula(op: LocalResponseNorm, data: GivenValue, maps: Part) -> OnnxCall:
    """``x / (bias + alpha * m) ** beta``, m the mean of squares in a window that zeros surround."""
    squares = call("Mul", maps, maps)
    mean = call(
        "AveragePool",
        squares,
        kernel_shape=(op.size, 1),
        pads=((op.size - 1) // 2, 0, op.size // 2, 0),
        count_include_pad=1,
    )
    scaled = call("Mul", mean, scalar(op.alpha, data.dtype))
    base = call("Add", scaled, scalar(op.bias, data.dtype))
    powers = call("Pow", base, scalar(op.beta, data.dtype))
    return reshaped(call("Div", maps, powers), data.shape)
