"""Random damage to ONNX models: to their bytes, and to their fields."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

Rng = np.random.Generator

EXTENTS = (0, 1, -1, 2, 3, 7, 255, 2**16, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))
NUMBERS = (0.0, -1.0, 1.0, 1e30, float("nan"), float("inf"), 0.5)
OPERATORS = (
    "Add", "Cast", "Concat", "ConstantOfShape", "Conv", "CumSum", "Einsum", "Expand", "EyeLike",
    "Flatten", "Gather", "GatherND", "If", "Loop", "MatMul", "NonZero", "OneHot", "Pad", "Range",
    "ReduceSum", "Relu", "Reshape", "Resize", "Scan", "Slice", "Split", "Squeeze", "Tile", "TopK",
    "Transpose", "Unsqueeze", "Upsample", "Where",
)  # fmt: skip


def mutated(model: onnx.ModelProto, seed: int) -> bytes:
    """The serialized model with one to four random changes."""
    rng = np.random.default_rng(seed)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if rng.random() < 0.25:
        return _damaged(copy.SerializeToString(), rng)
    for _ in range(int(rng.integers(1, 5))):
        change = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
        change(copy, rng)
    return copy.SerializeToString()


def _damaged(content: bytes, rng: Rng) -> bytes:
    data = bytearray(content)
    kind = rng.integers(4)
    if kind == 0:
        return bytes(data[: int(rng.integers(len(data)))])
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(len(data)))
        if kind == 1:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            data[at] = int(rng.integers(256))
        else:
            length = int(rng.integers(1, 9))
            data[at:at] = data[at : at + length]
    return bytes(data)


def _pick(items: list, rng: Rng):
    return items[int(rng.integers(len(items)))] if items else None


def _extent(rng: Rng) -> int:
    return int(EXTENTS[int(rng.integers(len(EXTENTS)))])


def _names(model: onnx.ModelProto) -> list[str]:
    graph = model.graph
    names = [info.name for info in (*graph.input, *graph.output)]
    names += [tensor.name for tensor in graph.initializer]
    return names + [name for node in graph.node for name in node.output] + ["", "nobody"]


def _input_dims(model: onnx.ModelProto, rng: Rng) -> None:
    info = _pick(list(model.graph.input) + list(model.graph.output), rng)
    dims = info.type.tensor_type.shape.dim if info is not None else []
    if dims and rng.random() < 0.7:
        _pick(list(dims), rng).dim_value = _extent(rng)
    elif info is not None and info.type.HasField("tensor_type"):
        info.type.tensor_type.shape.dim.add().dim_value = _extent(rng)


def _element_type(model: onnx.ModelProto, rng: Rng) -> None:
    info = _pick(list(model.graph.input) + list(model.graph.output), rng)
    if info is not None:
        info.type.tensor_type.elem_type = int(rng.integers(-1, 30))


def _tensor_dims(model: onnx.ModelProto, rng: Rng) -> None:
    tensor = _pick(list(model.graph.initializer), rng)
    if tensor is not None and tensor.dims and rng.random() < 0.8:
        tensor.dims[int(rng.integers(len(tensor.dims)))] = _extent(rng)
    elif tensor is not None:
        tensor.dims.append(_extent(rng))


def _tensor_type(model: onnx.ModelProto, rng: Rng) -> None:
    tensor = _pick(list(model.graph.initializer), rng)
    if tensor is not None:
        tensor.data_type = int(rng.integers(-1, 30))


def _tensor_data(model: onnx.ModelProto, rng: Rng) -> None:
    tensor = _pick(list(model.graph.initializer), rng)
    if tensor is None:
        return
    if tensor.data_type == TensorProto.INT64 and tensor.raw_data:
        values = np.frombuffer(tensor.raw_data, np.int64).copy()
        if values.size:
            values[int(rng.integers(values.size))] = _extent(rng)
        tensor.raw_data = values.tobytes()
    else:
        tensor.raw_data = tensor.raw_data[: int(rng.integers(len(tensor.raw_data) + 1))]


def _external(model: onnx.ModelProto, rng: Rng) -> None:
    tensor = _pick(list(model.graph.initializer), rng)
    if tensor is not None:
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", ("../x", "/etc/hosts", "weights", "")[rng.integers(4)]


def _attribute_value(model: onnx.ModelProto, rng: Rng) -> None:
    attribute = _pick([a for node in model.graph.node for a in node.attribute], rng)
    if attribute is None:
        return
    attribute.i = _extent(rng)
    attribute.f = float(NUMBERS[int(rng.integers(len(NUMBERS)))])
    attribute.s = (b"", b"SAME_UPPER", b"\xff\xfe", b"nearest", b"abc,abc->")[rng.integers(5)]
    if attribute.ints and rng.random() < 0.7:
        attribute.ints[int(rng.integers(len(attribute.ints)))] = _extent(rng)
    elif rng.random() < 0.5:
        attribute.ints.append(_extent(rng))
    else:
        del attribute.ints[:]


def _attribute_type(model: onnx.ModelProto, rng: Rng) -> None:
    attribute = _pick([a for node in model.graph.node for a in node.attribute], rng)
    if attribute is not None:
        kinds = list(AttributeProto.AttributeType.values())
        attribute.type = kinds[int(rng.integers(len(kinds)))]


def _attribute_gone(model: onnx.ModelProto, rng: Rng) -> None:
    node = _pick([node for node in model.graph.node if node.attribute], rng)
    if node is not None:
        del node.attribute[int(rng.integers(len(node.attribute)))]


def _attribute_name(model: onnx.ModelProto, rng: Rng) -> None:
    attribute = _pick([a for node in model.graph.node for a in node.attribute], rng)
    if attribute is not None:
        attribute.name = ("axis", "axes", "to", "nonsense", "")[int(rng.integers(5))]


def _node_input(model: onnx.ModelProto, rng: Rng) -> None:
    node = _pick(list(model.graph.node), rng)
    if node is None:
        return
    name = _pick(_names(model), rng)
    if node.input and rng.random() < 0.7:
        node.input[int(rng.integers(len(node.input)))] = name
    elif node.input and rng.random() < 0.5:
        del node.input[-1]
    else:
        node.input.append(name)


def _node_output(model: onnx.ModelProto, rng: Rng) -> None:
    node = _pick(list(model.graph.node), rng)
    if node is not None and node.output:
        node.output[int(rng.integers(len(node.output)))] = _pick(_names(model), rng)


def _operator(model: onnx.ModelProto, rng: Rng) -> None:
    node = _pick(list(model.graph.node), rng)
    if node is not None:
        node.op_type = OPERATORS[int(rng.integers(len(OPERATORS)))]


def _domain(model: onnx.ModelProto, rng: Rng) -> None:
    node = _pick(list(model.graph.node), rng)
    if node is not None:
        node.domain = ("ai.onnx", "ai.onnx.ml", "com.example", "")[int(rng.integers(4))]


def _opset(model: onnx.ModelProto, rng: Rng) -> None:
    if model.opset_import:
        model.opset_import[0].version = int(rng.integers(-1, 40))


def _order(model: onnx.ModelProto, rng: Rng) -> None:
    nodes = list(model.graph.node)
    if nodes:
        rng.shuffle(nodes)
        if rng.random() < 0.5:
            nodes = [*nodes[1:], nodes[-1]] if len(nodes) > 1 else []
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del model.graph.node[:]
        model.graph.node.extend(copies)


def _tensor_gone(model: onnx.ModelProto, rng: Rng) -> None:
    if model.graph.initializer:
        del model.graph.initializer[int(rng.integers(len(model.graph.initializer)))]


MUTATIONS: tuple[Callable[[onnx.ModelProto, Rng], None], ...] = (
    _input_dims, _element_type, _tensor_dims, _tensor_type, _tensor_data, _tensor_data, _external,
    _attribute_value, _attribute_value, _attribute_value, _attribute_type, _attribute_gone,
    _attribute_name, _node_input, _node_input, _node_output, _operator, _domain, _opset, _order,
    _tensor_gone,
)  # fmt: skip
