"""Operators that onnxruntime's optimiser writes into the default domain, which has none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import onnx
from onnx import helper

from autosched.host.node_names import walk

_DOMAIN: Final = "com.microsoft"
_DEFAULT: Final = ("", "ai.onnx")
_NEVER: Final = 1 << 16
# The opset from which on the standard has the operator.
_STANDARD: Final[Mapping[str, int]] = {
    "LayerNormalization": 17,
    "SimplifiedLayerNormalization": _NEVER,
}


def with_stated_domains(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """``model`` with such operators in onnxruntime's domain; a copy, where there are any.

    ``opset``: version of the default operator set.
    """
    if not any(_is_foreign(node, opset) for node in walk(model.graph.node)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in walk(copy.graph.node):
        if _is_foreign(node, opset):
            node.domain = _DOMAIN
    if all(entry.domain != _DOMAIN for entry in copy.opset_import):
        copy.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    return copy


def _is_foreign(node: onnx.NodeProto, opset: int) -> bool:
    return node.domain in _DEFAULT and opset < _STANDARD.get(node.op_type, 0)
