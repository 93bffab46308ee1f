"""A network as an ONNX model, in its own names, layouts and weights.

Used to run a network of the zoo in other runtimes, to compare results and speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from autosched.graph.errors import GraphError
from autosched.graph.ir import Array, Graph, Node, Value
from autosched.graph.ops.base import Op
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.elementwise import BinaryOp, Clip, Identity, LeakyRelu, UnaryOp
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.norm import BatchNorm
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose
from autosched.graph.ops.softmax import Softmax
from autosched.onnx.export_layer_norm import LayerNorm, layer_norms
from autosched.onnx.importer.elementwise import BINARY_OPERATORS, UNARY_OPERATORS
from sketch.lang.dtypes import integer_limits, is_integer

_OPSET: Final = 17
_IR_VERSION: Final = 8
_UNARY_NAMES: Final[Mapping[str, str]] = {
    function: name for name, function in UNARY_OPERATORS.items()
}
_BINARY_NAMES: Final[Mapping[str, str]] = {
    "pow": "Pow",
    **{function: name for name, function in BINARY_OPERATORS.items()},
}
_BOUNDS: Final = ("low", "high", "value")


@dataclass(frozen=True, slots=True)
class _OnnxNode:
    """An ONNX operator: attributes, and constants that become further inputs."""

    operator: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: tuple[tuple[str, Array], ...] = ()


def to_onnx(graph: Graph) -> onnx.ModelProto:
    """The checked ONNX model of a graph whose operators are in NCHW.

    Raises:
        GraphError: an operator has no ONNX form here (an NHWC one, for example).
    """
    initializers = [
        numpy_helper.from_array(np.array(array), name) for name, array in graph.constants.items()
    ]
    nodes = []
    public = _public_names(graph)
    norms = layer_norms(graph)
    covered = {name for norm in norms.values() for name in norm.inner}
    for node in graph.nodes:
        if node.output in covered:
            continue
        if node.output in norms:
            nodes.append(_layer_norm(node, norms[node.output], public))
            continue
        form = _form(node, graph.types[node.inputs[0]].dtype)
        names = [f"{node.name}.{role}" for role, _ in form.constants]
        initializers += [
            numpy_helper.from_array(np.array(array), name)
            for name, (_, array) in zip(names, form.constants, strict=True)
        ]
        inputs = [*(public.get(name, name) for name in node.inputs), *names]
        outputs = [public.get(node.output, node.output)]
        nodes.append(helper.make_node(form.operator, inputs, outputs, node.name, **form.attributes))
    nodes += _copied_results(graph, public)
    body = helper.make_graph(
        nodes,
        graph.name,
        [_value_info(value) for value in graph.inputs],
        [_value_info(value) for value in graph.outputs],
        initializers,
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(body, opset_imports=opsets, ir_version=_IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    return model


def _layer_norm(node: Node, norm: LayerNorm, public: Mapping[str, str]) -> onnx.NodeProto:
    inputs = [public.get(norm.data, norm.data), norm.scale, norm.bias]
    output = public.get(node.output, node.output)
    return helper.make_node(
        "LayerNormalization", inputs, [output], node.name, axis=-1, epsilon=norm.epsilon
    )


def _public_names(graph: Graph) -> dict[str, str]:
    """Computed values that can simply bear the public name of the output they carry."""
    return {
        result.value: result.name
        for result in graph.results
        if result.value in graph.producers and result.name not in graph.types
    }


def _copied_results(graph: Graph, public: Mapping[str, str]) -> Iterator[onnx.NodeProto]:
    """Outputs that carry an input, a constant, or a value with another public name."""
    for result in graph.results:
        source = public.get(result.value, result.value)
        if result.name != source:
            yield helper.make_node("Identity", [source], [result.name])


def _value_info(value: Value) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return helper.make_tensor_value_info(value.name, element, value.shape)


def _form(node: Node, dtype: str) -> _OnnxNode:
    """The ONNX node; ``dtype``: of its first operand."""
    convert = _FORMS.get(type(node.op))
    if convert is None or getattr(node.op, "layout", "NCHW") != "NCHW":
        raise GraphError(
            f"operator {node.op} has no ONNX form",
            node.where,
            "export the network as it was built, before passes change its layout",
        )
    if isinstance(node.op, Clip) and is_integer(dtype):
        raise GraphError(f"{node.op} of {dtype} gives floats, which has no ONNX form", node.where)
    form = convert(node.op)
    constants = [(role, _bound(a, dtype) if role in _BOUNDS else a) for role, a in form.constants]
    return replace(form, constants=tuple(constants))


def _bound(number: Array, dtype: str) -> Array:
    """A number of the type of what it bounds or pads; the largest one instead of infinity."""
    if not is_integer(dtype):
        return np.array(number, dtype)
    low, high = integer_limits(dtype)
    return np.array(int(np.clip(number.astype(np.float64), low, high)), dtype)


def _named(names: Mapping[str, str], function: str) -> _OnnxNode:
    if function not in names:
        raise GraphError(f"{function} has no ONNX form of one operator")
    return _OnnxNode(names[function])


def _conv(op: Conv) -> _OnnxNode:
    return _OnnxNode(
        "Conv" if op.dtype is None else "ConvInteger",
        {
            "strides": op.strides,
            "pads": op.padding,
            "dilations": op.dilation,
            "group": op.groups,
        },
    )


def _conv_transpose(op: ConvTranspose) -> _OnnxNode:
    return _OnnxNode("ConvTranspose", {**_conv(op).attributes, "output_padding": op.output_padding})


def _pool(op: Pool) -> _OnnxNode:
    attributes = {
        "kernel_shape": op.window,
        "strides": op.strides,
        "pads": [low for low, _ in op.sides] + [high for _, high in op.sides],
        "ceil_mode": int(op.ceil_mode),
    }
    if op.mode == "avg":
        if max(op.dilations) > 1:
            raise GraphError(f"dilated average pooling {op} has no ONNX form in opset {_OPSET}")
        return _OnnxNode(
            "AveragePool", {**attributes, "count_include_pad": int(op.count_include_pad)}
        )
    if op.mode == "sum":
        raise GraphError(f"pooling by sums {op} has no ONNX form")
    return _OnnxNode("MaxPool", {**attributes, "dilations": op.dilations})


def _unary(op: UnaryOp) -> _OnnxNode:
    if op.function == "rsqrt":
        raise GraphError("rsqrt has no ONNX form", hint="write it as 1 / sqrt")
    return _named(_UNARY_NAMES, op.function)


def _binary(op: BinaryOp) -> _OnnxNode:
    if op.function == "trunc_mod":
        return _OnnxNode("Mod", {"fmod": 1})
    return _named(_BINARY_NAMES, op.function)


def _clip(op: Clip) -> _OnnxNode:
    low = np.float32(-np.inf if op.low is None else op.low)
    high = np.float32(np.inf if op.high is None else op.high)
    return _OnnxNode("Clip", constants=(("low", np.array(low)), ("high", np.array(high))))


def _reduce(op: ReduceOp) -> _OnnxNode:
    keep = {"keepdims": int(op.keepdims)}
    if op.function == "sum":  # the only one whose axes are an input in opset 17
        return _OnnxNode("ReduceSum", keep, (("axes", np.array(op.axes, np.int64)),))
    name = "".join(part.capitalize() for part in op.function.split("_"))
    return _OnnxNode(f"Reduce{name}", {**keep, "axes": op.axes})


def _pad(op: Pad) -> _OnnxNode:
    pads = np.array([*op.low, *op.high], np.int64)
    return _OnnxNode("Pad", constants=(("pads", pads), ("value", np.array(np.float32(op.value)))))


def _reshape(op: Reshape) -> _OnnxNode:
    return _OnnxNode("Reshape", constants=(("shape", np.array(op.shape, np.int64)),))


_FORMS: Final[Mapping[type[Op], Callable[[Any], _OnnxNode]]] = {
    BatchNorm: lambda op: _OnnxNode("BatchNormalization", {"epsilon": op.epsilon}),
    BinaryOp: _binary,
    Clip: _clip,
    Concat: lambda op: _OnnxNode("Concat", {"axis": op.axis}),
    Conv: _conv,
    ConvTranspose: _conv_transpose,
    Dense: lambda op: _OnnxNode("Gemm"),
    Gather: lambda op: _OnnxNode("Gather", {"axis": op.axis}),
    GlobalPool: lambda op: _OnnxNode("GlobalAveragePool" if op.mode == "avg" else "GlobalMaxPool"),
    Identity: lambda op: _OnnxNode("Identity"),
    LeakyRelu: lambda op: _OnnxNode("LeakyRelu", {"alpha": op.slope}),
    MatMul: lambda op: _OnnxNode("MatMul" if op.dtype is None else "MatMulInteger"),
    Pad: _pad,
    Pool: _pool,
    ReduceOp: _reduce,
    Reshape: _reshape,
    Softmax: lambda op: _OnnxNode("LogSoftmax" if op.log else "Softmax", {"axis": op.axis}),
    Transpose: lambda op: _OnnxNode("Transpose", {"perm": op.permutation}),
    UnaryOp: _unary,
}
