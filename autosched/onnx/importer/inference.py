"""onnx's inference of types and shapes, kept from filling the memory."""

from __future__ import annotations

import math
from typing import Final

import onnx
from onnx import shape_inference

# With data_prop, onnx takes every vector for a possible shape and keeps dozens of bytes for each
# of its elements, known or not.  No shape is nearly as long as this; some weights are half as long.
_LONGEST_SHAPE: Final = 1 << 20
_SMALL_TENSOR: Final = 1 << 10


def infer_types(
    model: onnx.ModelProto, strict: bool = False, through_data: bool = True
) -> onnx.ModelProto:
    """A copy of ``model`` with the types of its values.

    Args:
        model: without local functions.
        strict: raise on inconsistencies rather than leave types out.
        through_data: also shapes that are computed from other shapes; not in a model that has long
            vectors.

    Raises:
        Exception: whatever onnx raises.
    """
    data = through_data and not _has_long_vector(model)
    return shape_inference.infer_shapes(model, strict_mode=strict, data_prop=data)


def _has_long_vector(model: onnx.ModelProto) -> bool:
    try:
        found = shape_inference.infer_shapes(_outline(model)).graph
    except Exception:  # the inference that counts says what is wrong
        return False
    infos = (*found.input, *found.value_info, *found.output)
    shapes = [[dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in infos]
    shapes += [list(tensor.dims) for tensor in found.initializer]
    return any(len(shape) == 1 and shape[0] > _LONGEST_SHAPE for shape in shapes)


def _outline(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the data of its weights: quick to copy."""
    graph = onnx.GraphProto(name=model.graph.name)
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(model.graph, field))
    for tensor in model.graph.initializer:
        small = math.prod(tensor.dims) <= _SMALL_TENSOR
        bare = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        graph.initializer.append(tensor if small else bare)
    return onnx.ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, graph=graph
    )
