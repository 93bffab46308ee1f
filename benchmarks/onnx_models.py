"""Single-operator ONNX models of the workloads, for the rivals that read ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from benchmarks.workloads import (
    Attention,
    Conv,
    IntegerConv,
    IntegerMatmul,
    Matmul,
    Network,
    OuterProducts,
    SmallModule,
    Stencil,
    Workload,
)

OPSET = 17
IR_VERSION = 8


def onnx_model(workload: Workload) -> bytes:
    """The serialised model; convolutions are NCHW, as ONNX has them."""
    match workload:
        case Network() | SmallModule():
            with open(workload.path, "rb") as file:
                return file.read()
        case Conv():
            return _conv(workload)
        case Matmul():
            return _matmul(workload)
        case IntegerConv():
            return _integer_conv(workload)
        case IntegerMatmul():
            return _integer_matmul(workload)
        case OuterProducts():
            return _outer_products(workload)
        case Attention():
            return _attention(workload)
        case Stencil():
            return _stencil(workload)


def to_nchw(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """NHWC to a contiguous NCHW copy."""
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))


def to_nhwc(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """NCHW to a contiguous NHWC copy."""
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1))


def to_oihw(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """HWIO weights to a contiguous OIHW copy."""
    return np.ascontiguousarray(weight.transpose(3, 2, 0, 1))


def _value(name: str, shape: tuple[int, ...], dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def _serialise(
    nodes: list[Any],
    inputs: list[Any],
    output: Any,
    constants: dict[str, NDArray[Any]],
) -> bytes:
    initializers = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "workload", inputs, [output], initializers)
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    serialised: bytes = model.SerializeToString()
    return serialised


def _integer_matmul(case: IntegerMatmul) -> bytes:
    node = helper.make_node("MatMulInteger", ["A", "B"], ["C"])
    data = _value("A", (case.m, case.k), TensorProto.UINT8)
    result = _value("C", (case.m, case.n), TensorProto.INT32)
    return _serialise([node], [data], result, {"B": case.arrays()["B"]})


def _conv(case: Conv) -> bytes:
    node = helper.make_node(
        "Conv",
        ["X", "W"],
        ["Y"],
        kernel_shape=[case.kernel] * 2,
        strides=[case.stride] * 2,
        pads=[case.padding] * 4,
    )
    data = _value("X", (1, case.channels, case.size, case.size))
    result = _value("Y", (1, case.filters, case.out, case.out))
    return _serialise([node], [data], result, {"W": to_oihw(case.arrays()["W"])})


def _integer_conv(case: IntegerConv) -> bytes:
    """In the form of a quantiser: a convolution between what widens bytes and what makes them."""
    conv, step = case.of, np.float32(2.0**-7)
    scales = {"x": step, "w": step, "y": np.float32(step * step / case.scale)}
    constants: dict[str, NDArray[Any]] = {f"{n}_scale": np.array(s) for n, s in scales.items()}
    types = {"x": np.uint8, "w": np.int8, "y": np.uint8}
    constants |= {f"{n}_zero": np.zeros((), dtype) for n, dtype in types.items()}
    constants["W"] = to_oihw(case.arrays()["W"])
    nodes = [
        helper.make_node("DequantizeLinear", ["X", "x_scale", "x_zero"], ["x"]),
        helper.make_node("DequantizeLinear", ["W", "w_scale", "w_zero"], ["w"]),
        helper.make_node(
            "Conv", ["x", "w"], ["y"], kernel_shape=[conv.kernel] * 2,
            strides=[conv.stride] * 2, pads=[conv.padding] * 4,
        ),
        helper.make_node("QuantizeLinear", ["y", "y_scale", "y_zero"], ["Y"]),
    ]  # fmt: skip
    data = _value("X", (1, conv.channels, conv.size, conv.size), TensorProto.UINT8)
    result = _value("Y", (1, conv.filters, conv.out, conv.out), TensorProto.UINT8)
    return _serialise(nodes, [data], result, constants)


def _matmul(case: Matmul) -> bytes:
    node = helper.make_node("MatMul", ["A", "B"], ["C"])
    inputs = [_value("A", (case.m, case.k))]
    constants = {}
    if case.constant_b:
        constants["B"] = case.arrays()["B"]
    else:
        inputs.append(_value("B", (case.k, case.n)))
    return _serialise([node], inputs, _value("C", (case.m, case.n)), constants)


def _outer_products(case: OuterProducts) -> bytes:
    nodes = [
        helper.make_node("Transpose", ["A"], ["At"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["At", "B"], ["C"]),
    ]
    inputs = [
        _value("A", (case.batch, case.k, case.m)),
        _value("B", (case.batch, case.k, case.n)),
    ]
    return _serialise(nodes, inputs, _value("C", (case.batch, case.m, case.n)), {})


def _attention(case: Attention) -> bytes:
    nodes = [
        helper.make_node("Transpose", ["K"], ["Kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["Q", "Kt"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "mask"], ["scores"]),
        helper.make_node("Softmax", ["scores" if case.causal else "scaled"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "V"], ["Y"]),
    ]
    constants: dict[str, NDArray[Any]] = {"scale": np.array(case.size**-0.5, np.float32)}
    if case.causal:
        hidden = np.full((case.length, case.length), -np.inf, np.float32)
        constants["mask"] = np.triu(hidden, 1)
    else:
        del nodes[3]
    inputs = [_value(name, case.shape) for name in "QKV"]
    return _serialise(nodes, inputs, _value("Y", case.shape), constants)


def _stencil(case: Stencil) -> bytes:
    """As the closest operator that libraries have: a 3x3 convolution with four zero taps."""
    taps = np.zeros((1, 1, 3, 3), np.float32)
    taps[0, 0] = STENCIL_TAPS
    shapes = {"grid": [1, 1, case.size, case.size], "interior": [case.size - 2, case.size - 2]}
    nodes = [
        helper.make_node("Reshape", ["U", "grid"], ["U4"]),
        helper.make_node("Conv", ["U4", "W"], ["V4"], kernel_shape=[3, 3]),
        helper.make_node("Reshape", ["V4", "interior"], ["V"]),
    ]
    constants: dict[str, NDArray[Any]] = {k: np.array(v, np.int64) for k, v in shapes.items()}
    return _serialise(
        nodes,
        [_value("U", (case.size, case.size))],
        _value("V", (case.size - 2, case.size - 2)),
        {"W": taps, **constants},
    )


STENCIL_TAPS = np.array([[0.0, 0.125, 0.0], [0.125, 0.5, 0.125], [0.0, 0.125, 0.0]], np.float32)
"""Weights of the 5-point stencil: half of the centre, an eighth of each neighbour."""
