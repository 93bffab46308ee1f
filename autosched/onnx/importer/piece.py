"""Pieces of an ONNX model as models of their own: what host operators and folding evaluate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from autosched.graph.ops.base import TensorType
from autosched.host.node_names import free_names
from autosched.onnx.importer.domains import opset_of
from autosched.onnx.importer.inference import infer_types
from autosched.onnx.importer.reference_gaps import state_old_defaults
from autosched.onnx.importer.site import UnsupportedError
from autosched.system.element_types import element_type

Arrays = Mapping[str, NDArray[Any]]
Types = Mapping[str, TensorType]


@dataclass(frozen=True, slots=True)
class Setting:
    """What all pieces of a model share.

    Attributes:
        opsets: versions of the operator sets.
        ir_version: version of the file format.
        inferred: types that onnx infers from the model's inputs, by value.
        promised: types that the model merely states; a host operator checks them when it runs.
    """

    opsets: tuple[onnx.OperatorSetIdProto, ...]
    ir_version: int
    inferred: Types
    promised: Types

    @property
    def opset(self) -> int:
        """Version of the default operator set; 0 where the model has none."""
        return opset_of(self.opsets)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some nodes as a model.

    Attributes:
        model: constants are inside; inputs have types where they are known.
        inputs: values that are no constants, in the order of the model's inputs.
        outputs: values that it computes, in the order of the model's outputs.
    """

    model: onnx.ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def operator(self) -> str:
        """The operators, joined by ``+``."""
        return "+".join(dict.fromkeys(node.op_type for node in self.model.graph.node))

    def serialized(self) -> bytes:
        """The model as bytes.  Raises UnsupportedError when it is too large for the format."""
        try:
            return bytes(self.model.SerializeToString(deterministic=True))
        except Exception as error:  # protobuf's limit of 2 GB, under several names
            raise UnsupportedError(f"its constants are too large: {error}") from error


def make_piece(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str],
    arrays: Arrays,
    types: Types,
    setting: Setting,
) -> Piece:
    """The model that computes the outputs from constants and typed values.

    Args:
        nodes: in topological order.
        outputs: names of results.
        arrays: constants known so far, by name.
        types: types of values known so far, by name.
        setting: what all pieces of the model share.
    """
    names = free_names(nodes)
    inputs = [name for name in names if name not in arrays]
    body = helper.make_graph(
        nodes,
        "piece",
        [_typed(name, types.get(name)) for name in inputs],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [tensor_of(name, arrays[name]) for name in names if name in arrays],
    )
    state_old_defaults(body.node, setting.opset)
    model = helper.make_model(body, opset_imports=setting.opsets, ir_version=setting.ir_version)
    return Piece(model, tuple(inputs), tuple(outputs))


def inferred_types(model: onnx.ModelProto, data: bool = True) -> dict[str, TensorType]:
    """Types that onnx infers for the values of a model, where all of a type is known."""
    try:
        result = infer_types(model, through_data=data)
    except Exception:  # inference is a help; without it the piece is evaluated, or refused
        return {}
    infos = (*result.graph.value_info, *result.graph.output)
    found = {info.name: type_of(info) for info in infos}
    return {name: kind for name, kind in found.items() if kind is not None}


def is_consistent(model: onnx.ModelProto) -> bool:
    """Whether onnx infers the types of a model's values without any complaint."""
    try:
        infer_types(model, strict=True)
    except Exception:  # InferenceError, or what else onnx raises
        return False
    return True


def type_of(info: onnx.ValueInfoProto) -> TensorType | None:
    """The tensor type that a description gives; None unless all of it is known."""
    kind = info.type.tensor_type
    known = all(
        dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0 for dim in kind.shape.dim
    )
    if info.type.WhichOneof("value") != "tensor_type" or not kind.HasField("shape") or not known:
        return None
    dtype = dtype_name(kind.elem_type)
    return None if dtype is None else TensorType(tuple(d.dim_value for d in kind.shape.dim), dtype)


def dtype_name(code: int) -> str | None:
    """NumPy's name of an ONNX element type; None if there is none."""
    try:
        return str(helper.tensor_dtype_to_np_dtype(code)) if code else None
    except (KeyError, TypeError, ValueError):
        return None


def value_info(name: str, shape: Sequence[int], dtype: str) -> onnx.ValueInfoProto:
    """The description of a tensor."""
    code = helper.np_dtype_to_tensor_dtype(element_type(dtype))
    return helper.make_tensor_value_info(name, code, shape)


def _typed(name: str, kind: TensorType | None) -> onnx.ValueInfoProto:
    if kind is None:
        return helper.make_empty_tensor_value_info(name)
    return value_info(name, kind.shape, kind.dtype)


def tensor_of(name: str, array: NDArray[Any]) -> onnx.TensorProto:
    """A constant of a model; objects are strings."""
    if array.dtype == object:
        texts = [str(text).encode() for text in array.reshape(-1)]
        return helper.make_tensor(name, onnx.TensorProto.STRING, array.shape, texts)
    return numpy_helper.from_array(np.asarray(array), name)
