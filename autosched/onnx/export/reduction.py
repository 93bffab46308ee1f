"""Forms of reductions, of positions of extremes, and of running sums and products."""

from __future__ import annotations

import onnx
from onnx import helper

from autosched.graph.ops.base import TensorType
from autosched.graph.ops.reduce import ArgReduce, Cumulative, ReduceOp
from autosched.graph.ops.softmax import Hardmax, Softmax
from autosched.onnx.export.terms import (
    NARROW,
    Given,
    OnnxCall,
    call,
    cast,
    converted,
    in_wide,
    integers,
    scalar,
    stored,
)
from sketch.lang.dtypes import BOOL, numpy_dtype


def reduce_op(op: ReduceOp, given: Given) -> OnnxCall:
    """ReduceSum and others; narrow integers and truth values are reduced as int32."""
    name = "".join(part.capitalize() for part in op.function.split("_"))
    axes, keep = integers(op.axes), int(op.keepdims)
    return in_wide(f"Reduce{name}", given, axes, narrow=(*NARROW, BOOL), keepdims=keep)


def arg_reduce(op: ArgReduce, given: Given) -> OnnxCall:
    """ArgMax or ArgMin; where NaN is an element, onnxruntime finds other positions."""
    own = given.data.dtype
    data = converted(given.data, own, "int32" if own == "int16" else own)
    return call(
        f"Arg{op.function.capitalize()}",
        data,
        axis=op.axis,
        keepdims=int(op.keepdims),
        select_last_index=int(op.last),
    )


def cumulative(op: Cumulative, given: Given) -> OnnxCall:
    """CumSum, or a Scan of products."""
    if op.function == "prod":
        return _running_product(op, given)
    axis = scalar(op.axis, "int64")
    exclusive, reverse = int(op.exclusive), int(op.reverse)
    return in_wide("CumSum", given, axis, exclusive=exclusive, reverse=reverse)


def _running_product(op: Cumulative, given: Given) -> OnnxCall:
    """A Scan along the axis, whose state is the product of what it has seen."""
    data = given.data
    axis, wide = op.axis % data.rank, "int32" if data.dtype in NARROW else data.dtype
    shape = (*data.shape[:axis], *data.shape[axis + 1 :])
    ones = call("Expand", scalar(1, wide), integers(shape))
    found = OnnxCall(
        "Scan",
        (ones, converted(data, data.dtype, wide)),
        {
            "body": _product_body(TensorType(shape, wide), op.exclusive),
            "num_scan_inputs": 1,
            "scan_input_axes": [axis],
            "scan_input_directions": [int(op.reverse)],
            "scan_output_axes": [axis],
            "scan_output_directions": [int(op.reverse)],
        },
        output=1,
    )
    return stored(found, wide, data.dtype)


def _product_body(kind: TensorType, exclusive: bool) -> onnx.GraphProto:
    before, element, after, seen = (
        f"running_product.{name}" for name in ("before", "element", "after", "seen")
    )
    code = helper.np_dtype_to_tensor_dtype(numpy_dtype(kind.dtype))
    infos = [
        helper.make_tensor_value_info(name, code, kind.shape)
        for name in (before, element, after, seen)
    ]
    nodes = [
        helper.make_node("Mul", [before, element], [after]),
        helper.make_node("Identity", [before if exclusive else after], [seen]),
    ]
    return helper.make_graph(nodes, "running_product", infos[:2], infos[2:])


def softmax(op: Softmax, given: Given) -> OnnxCall:
    """Softmax or its logarithm."""
    return call("LogSoftmax" if op.log else "Softmax", given.data, axis=op.axis)


def hardmax(op: Hardmax, given: Given) -> OnnxCall:
    """Hardmax, which onnxruntime has of float32 alone; of others the OneHot of the maximum."""
    data = given.data
    if data.dtype == "float32":
        return call("Hardmax", data, axis=op.axis)
    axis = op.axis % data.rank
    place = call("ArgMax", data, axis=axis, keepdims=0)
    hot = call("OneHot", place, scalar(data.shape[axis], "int64"), integers((0, 1)), axis=axis)
    return cast(hot, data.dtype)
