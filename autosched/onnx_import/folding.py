"""Values known at import: computed shapes, generated weights, de-quantised constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from autosched.graph.ops.base import TensorType
from autosched.onnx_import.site import UnsupportedError

_RANDOM: Final = frozenset(
    (
        "RandomNormal",
        "RandomUniform",
        "RandomNormalLike",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
    )
)


def fold_node(
    node: onnx.NodeProto,
    opset: int,
    arrays: Mapping[str, NDArray[Any]],
    types: Mapping[str, TensorType],
) -> dict[str, NDArray[Any]] | None:
    """The outputs of a node that depends on constants and static shapes only; None otherwise.

    Raises:
        UnsupportedError: onnx's own evaluator does not know the operator.
    """
    if node.domain not in ("", "ai.onnx") or node.op_type in _RANDOM:
        return None
    if node.op_type in ("Shape", "Size") and node.input[0] in types:
        return {node.output[0]: _shape_of(node, types[node.input[0]])}
    if node.op_type == "EyeLike" and node.input[0] in types:
        kind = types[node.input[0]]
        arrays = {node.input[0]: np.zeros(kind.shape, kind.dtype)}
    given = [name for name in node.input if name]
    nested = any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute)
    constant = node.op_type == "Constant"
    if nested or any(name not in arrays for name in given) or not (given or constant):
        return None
    body = helper.make_graph(
        [node],
        "folding",
        [],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        [numpy_helper.from_array(np.asarray(arrays[name]), name) for name in dict.fromkeys(given)],
    )
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)])
    try:
        values = ReferenceEvaluator(model).run(None, {})
    except (RuntimeError, TypeError, ValueError) as error:
        raise UnsupportedError(f"it cannot be evaluated: {error}") from error
    names = [name for name in node.output if name]
    return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}


def _shape_of(node: onnx.NodeProto, kind: TensorType) -> NDArray[np.int64]:
    if node.op_type == "Size":
        return np.asarray(kind.size, dtype=np.int64)
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    return np.asarray(kind.shape[bounds.get("start", 0) : bounds.get("end")], dtype=np.int64)
