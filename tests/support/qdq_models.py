"""Small models of quantised layers as quantisers of ONNX write them: floats between Q and DQ."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper, parser

Array = NDArray[Any]


def qdq_model(text: str, constants: Mapping[str, Array]) -> Any:
    """The model of a graph in ONNX's textual form, with the constants it reads.

    ``Q(x, name)`` and ``D(x, name)`` stand for QuantizeLinear and DequantizeLinear with the
    parameters ``name_s`` and ``name_z``.
    """
    for short, operator in (("Q(", "QuantizeLinear("), ("D(", "DequantizeLinear(")):
        text = text.replace(f"= {short}", f"= {operator}")
    graph = parser.parse_graph(text)
    for node in graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            name = node.input[1]
            node.input[1:] = [f"{name}_s", f"{name}_z"]
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    opsets = [helper.make_opsetid("", 21)]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opsets, ir_version=10)
    )


def parameters(**points: tuple[float, int, str]) -> dict[str, Array]:
    """``name=(scale, zero point, dtype)`` as the constants ``name_s`` and ``name_z``."""
    found: dict[str, Array] = {}
    for name, (scale, zero, dtype) in points.items():
        found[f"{name}_s"] = np.asarray(scale, np.float32)
        found[f"{name}_z"] = np.asarray(zero, dtype)
    return found


def integers(*shape: int, dtype: str = "int8", most: int = 127) -> Array:
    """Random integers up to ``most``."""
    least = 0 if dtype == "uint8" else -most
    rng = np.random.default_rng(sum(shape))
    return rng.integers(least, most, shape, endpoint=True).astype(dtype)
