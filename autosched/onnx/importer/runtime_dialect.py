"""What runtimes take and onnx itself does not, or reads otherwise, as nodes that all take.

GroupNormalization of opsets 18 to 20   ->  InstanceNormalization of the groups, which is the same:
                                            it has a scale for each group; onnx calls it deprecated
STFT that does not say "onesided"       ->  one side, the default, which onnx's inference forgets
ZipMap that makes an output             ->  its input: one column for each class, no dictionaries
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import onnx
from onnx import TensorProto, helper

from autosched.host.node_names import nested_graphs, walk

_DEFAULT: Final = ("", "ai.onnx")
_LEARNED: Final = "ai.onnx.ml"
_DEPRECATED: Final = range(18, 21)
_EPSILON: Final = 1e-5


def in_common_terms(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with the rewrites above: a copy, or itself where there are none."""
    members = [*walk(model.graph.node), *(n for f in model.functions for n in walk(f.node))]
    if not any(node.op_type in ("GroupNormalization", "STFT", "ZipMap") for node in members):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    _give_scores(copy.graph)
    _rewrite(copy.graph.node, _opset_of(copy.opset_import))
    for function in copy.functions:
        _rewrite(function.node, _opset_of(function.opset_import))
    return copy


def _opset_of(imports: Iterable[onnx.OperatorSetIdProto]) -> int:
    return max((entry.version for entry in imports if entry.domain in _DEFAULT), default=0)


def _give_scores(graph: onnx.GraphProto) -> None:
    """Outputs that would be dictionaries are tensors."""
    outputs = {info.name: info for info in graph.output}
    for node in graph.node:
        ends = (len(node.input), len(node.output))
        if node.op_type != "ZipMap" or node.domain != _LEARNED or ends != (1, 1):
            continue
        (name,) = node.output
        if name in outputs:
            outputs[name].type.Clear()
            outputs[name].type.tensor_type.elem_type = TensorProto.FLOAT
            node.CopyFrom(helper.make_node("Identity", node.input, [name], node.name))


def _rewrite(nodes: Any, opset: int) -> None:
    """Replace what has to be, in nested graphs as well; ``nodes``: protobuf's list of them."""
    written: list[onnx.NodeProto] = []
    for node in nodes:
        for graph in nested_graphs(node):
            _rewrite(graph.node, opset)
        if node.domain in _DEFAULT and node.op_type == "STFT":
            _state_side(node)
        grouped = opset in _DEPRECATED and _is_group_norm(node)
        written += _instances(node) if grouped else [node]
    del nodes[:]
    nodes.extend(written)


def _state_side(node: onnx.NodeProto) -> None:
    if all(attribute.name != "onesided" for attribute in node.attribute):
        node.attribute.append(helper.make_attribute("onesided", 1))


def _is_group_norm(node: onnx.NodeProto) -> bool:
    """Whether it is one that is complete; the checker refuses others."""
    named = node.domain in _DEFAULT and node.op_type == "GroupNormalization"
    ends = (len(node.input), len(node.output))
    return named and ends == (3, 1) and any(a.name == "num_groups" for a in node.attribute)


def _instances(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The normalisation of ``[batch, groups, all elements of a group]``."""
    data, scale, bias = node.input
    (result,) = node.output
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    epsilon = attributes.get("epsilon", _EPSILON)
    names = [f"{result}/{part}" for part in ("groups", "rows", "normal", "shape")]
    groups, rows, normal, shape = names
    make = helper.make_node
    return [
        make("Constant", [], [groups], value_ints=[0, attributes["num_groups"], -1]),
        make("Reshape", [data, groups], [rows]),
        make("InstanceNormalization", [rows, scale, bias], [normal], node.name, epsilon=epsilon),
        make("Shape", [data], [shape]),
        make("Reshape", [normal, shape], [result]),
    ]
