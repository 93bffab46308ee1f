"""Quantisation to 16 unsigned bits as onnxruntime's domain has it, as operators of ONNX.

    QuantizeLinear(x, s, z)     ->  Cast(Min(Max(Round(x / s) + z, 0), 65535))
    DequantizeLinear(x, s, z)   ->  (x - z) * s

ONNX has these types only from opset 21 on; onnxruntime's quantiser writes its own operators for
models of older ones.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from autosched.host.domains import CONTRIB
from autosched.onnx.importer.piece import Arrays, Types

_WIDE: Final = "uint16"
_INPUTS: Final = 3


def quantisation_body(
    node: onnx.NodeProto, arrays: Arrays, types: Types
) -> list[onnx.NodeProto] | None:
    """The nodes that quantise to, or dequantise, uint16 with one scale; None: others are asked for.

    Args:
        node: the ONNX node.
        arrays: constants known so far, by name.
        types: types of values known so far, by name.
    """
    kind, names = node.op_type, node.input
    if node.domain != CONTRIB or kind not in ("QuantizeLinear", "DequantizeLinear"):
        return None
    if len(names) != _INPUTS or any(name not in arrays for name in names[1:]):
        return None
    scale, zero = arrays[names[1]], arrays[names[2]]
    shape = arrays[names[0]].shape if names[0] in arrays else types[names[0]].shape
    single = scale.size == zero.size == 1 and len(shape) >= scale.ndim
    if not single or str(zero.dtype) != _WIDE or str(scale.dtype) != "float32":
        return None
    point = _constant(zero.astype(np.float32), "point")
    make = helper.make_node
    if kind == "DequantizeLinear":
        return [
            point,
            make("Cast", [names[0]], ["wide"], to=TensorProto.FLOAT),
            make("Sub", ["wide", "point"], ["moved"]),
            make("Mul", ["moved", names[1]], [node.output[0]]),
        ]
    limits = np.iinfo(_WIDE)
    return [
        point,
        _constant(np.float32(limits.min), "least"),
        _constant(np.float32(limits.max), "most"),
        make("Div", [names[0], names[1]], ["scaled"]),
        make("Round", ["scaled"], ["whole"]),
        make("Add", ["whole", "point"], ["moved"]),
        make("Max", ["moved", "least"], ["above"]),
        make("Min", ["above", "most"], ["inside"]),
        make("Cast", ["inside"], [node.output[0]], to=TensorProto.UINT16),
    ]


def _constant(array: np.float32 | np.ndarray, name: str) -> onnx.NodeProto:
    value = numpy_helper.from_array(np.asarray(array))
    return helper.make_node("Constant", [], [name], value=value)
