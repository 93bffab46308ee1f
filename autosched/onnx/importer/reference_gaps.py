"""Nodes for which onnx's reference implementation computes something else than the standard says.

It ignores some attributes and inputs without a word; such nodes must not run on the host, and
their results must not be taken for constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import onnx
from onnx import helper

from autosched.host.node_names import walk

_LENGTHS: Final = 4  # position of sequence_lens among the inputs
_GATES: Final = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}


def reference_gap(nodes: Iterable[onnx.NodeProto]) -> str | None:
    """What onnx would ignore in one of the nodes, nested ones included; None if nothing."""
    for node in walk(nodes):
        check = _CHECKS.get(node.op_type)
        if check is None or node.domain not in ("", "ai.onnx"):
            continue
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        gap = check(node, attributes)
        if gap is not None:
            return f"onnx's evaluation of {node.op_type} ignores {gap}"
    return None


def _recurrent(node: onnx.NodeProto, attributes: Mapping[str, Any]) -> str | None:
    if len(node.input) > _LENGTHS and node.input[_LENGTHS]:
        return "sequence_lens"
    if attributes.get("clip") is not None:
        return "clip"
    if attributes.get("input_forget"):
        return "input_forget"
    given = [text.decode() for text in attributes.get("activations", [])]
    gates = _GATES.get(node.op_type, given[:1])  # RNN has that of the first direction
    if given != gates * (len(given) // max(len(gates), 1)):
        return f"activations {given}"
    return None


def _grid_sample(node: onnx.NodeProto, attributes: Mapping[str, Any]) -> str | None:
    mode = attributes.get("mode", b"")
    if mode in (b"bilinear", b"bicubic"):
        return f"the names of modes before opset 20, such as {mode.decode()}"
    if mode == b"cubic" and attributes.get("padding_mode", b"") == b"border":
        return "that every neighbour is taken from the border, not only the point"
    return None


_CHECKS: Final[dict[str, Callable[[onnx.NodeProto, Mapping[str, Any]], str | None]]] = {
    "GRU": _recurrent,
    "GridSample": _grid_sample,
    "LSTM": _recurrent,
    "RNN": _recurrent,
}
