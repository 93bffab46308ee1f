"""Nodes for which onnx's reference implementation computes something else than the standard says.

It ignores some attributes and inputs without a word, and computes some operators by their newest
version whatever the model's opset is; such nodes must not run on the host, and their results must
not be taken for constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import onnx
from onnx import helper

from autosched.host.node_names import walk
from autosched.onnx.importer.domains import DEFAULT_DOMAINS

_LENGTHS: Final = 4  # position of sequence_lens among the inputs
_PLANE: Final = 2  # axes of an image
_EUCLIDEAN: Final = 2
# The opsets that changed what an operator computes.
_SOFTMAX_OF_ONE_AXIS: Final = 13
_STATED_TRAINING: Final = 14
_HALF_PIXEL_ROIS: Final = 16
_SAMPLES: Final = {b"bilinear": b"linear", b"bicubic": b"cubic"}  # before opset 20
_GATES: Final = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}


def reference_gap(nodes: Iterable[onnx.NodeProto], opset: int) -> str | None:
    """What onnx would ignore in one of the nodes, nested ones included; None if nothing.

    ``opset``: version of the default operator set that the nodes are of.
    """
    for node in walk(nodes):
        if node.domain not in DEFAULT_DOMAINS:
            continue
        check = _CHECKS.get(node.op_type)
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        gap = _version_gap(node.op_type, attributes, opset)
        if gap is None and check is not None:
            gap = check(node, attributes)
        if gap is not None:
            return f"onnx's evaluation of {node.op_type} ignores {gap}"
    return None


def state_old_defaults(nodes: Iterable[onnx.NodeProto], opset: int) -> None:
    """Write into nodes of an older opset what onnx would take from the newest one instead, and the
    names that the newest one has.
    """
    for node in walk(nodes):
        if node.op_type == "RoiAlign" and opset < _HALF_PIXEL_ROIS:
            mode = helper.make_attribute("coordinate_transformation_mode", "output_half_pixel")
            node.attribute.append(mode)
        if node.op_type == "GridSample":
            _rename_mode(node)


def _rename_mode(node: onnx.NodeProto) -> None:
    given = [attribute for attribute in node.attribute if attribute.name == "mode"]
    for attribute in given:
        attribute.s = _SAMPLES.get(attribute.s, attribute.s)
    if not given:
        node.attribute.append(helper.make_attribute("mode", "linear"))


def _version_gap(operator: str, attributes: Mapping[str, Any], opset: int) -> str | None:
    if operator in ("Softmax", "LogSoftmax", "Hardmax") and opset < _SOFTMAX_OF_ONE_AXIS:
        same = attributes.get("axis") == -1  # one axis, or a matrix of rows: the last is alike
        return None if same else f"that opset {opset} flattens its input to a matrix"
    if operator == "BatchNormalization" and opset < _STATED_TRAINING:
        return f"that opset {opset} has no statistics of the batch"
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
    cubic = attributes.get("mode", b"") in (b"cubic", b"bicubic")
    if cubic and attributes.get("padding_mode", b"") == b"border":
        return "that every neighbour is taken from the border, not only the point"
    return None


def _pool(node: onnx.NodeProto, attributes: Mapping[str, Any]) -> str | None:
    if attributes.get("ceil_mode"):
        return "that windows start at the padding, with ceil_mode"
    if len(attributes.get("kernel_shape", ())) > _PLANE:
        return "the order of axes, in volumes"
    return None


def _global_max_pool(node: onnx.NodeProto, attributes: Mapping[str, Any]) -> str | None:
    return "all axes but those of a plane"


def _lp_normalization(node: onnx.NodeProto, attributes: Mapping[str, Any]) -> str | None:
    return "signs, for p = 1" if attributes.get("p", _EUCLIDEAN) % 2 else None


def _local_response(node: onnx.NodeProto, attributes: Mapping[str, Any]) -> str | None:
    return "all channels beyond the size of the batch"


_CHECKS: Final[dict[str, Callable[[onnx.NodeProto, Mapping[str, Any]], str | None]]] = {
    "AveragePool": _pool,
    "GRU": _recurrent,
    "GlobalMaxPool": _global_max_pool,
    "GridSample": _grid_sample,
    "LRN": _local_response,
    "LSTM": _recurrent,
    "LpNormalization": _lp_normalization,
    "LpPool": _pool,
    "MaxPool": _pool,
    "RNN": _recurrent,
}
