"""What runtimes take and onnx itself does not, or reads otherwise, as nodes that all take.

GroupNormalization of opsets 18 to 20   ->  InstanceNormalization of the groups, which is the same:
                                            it has a scale for each group; onnx calls it deprecated
STFT that does not say "onesided"       ->  one side, the default, which onnx's inference forgets
ZipMap that makes an output             ->  its input: one column for each class, no dictionaries
LayerNormalization before opset 17,     ->  the same of com.microsoft: onnxruntime's optimiser
SimplifiedLayerNormalization                writes them into the default domain
com.microsoft that is not imported      ->  its first version: onnxruntime's optimiser for
                                            transformers imports it in files alone
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import onnx
from onnx import TensorProto, helper

from autosched.host.domains import CONTRIB, LEARNED
from autosched.host.node_names import nested_graphs, walk
from autosched.onnx.importer.domains import DEFAULT_DOMAINS, opset_of

_DEPRECATED: Final = range(18, 21)
_EPSILON: Final = 1e-5
_NEVER: Final = 1 << 16
# Of what onnxruntime writes into the default domain: the opset from which on it is there.
_STANDARD: Final[Mapping[str, int]] = {
    "LayerNormalization": 17,
    "SimplifiedLayerNormalization": _NEVER,
}


def in_common_terms(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with the rewrites above: a copy, or itself where there are none."""
    if not any(_is_changed(nodes, imports) for nodes, imports in _bodies(model)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    _give_scores(copy.graph)
    taken = _names(copy)
    for nodes, imports in _bodies(copy):
        opset = opset_of(imports)
        if any(node.domain == CONTRIB or _is_foreign(node, opset) for node in walk(nodes)):
            _import_contrib(imports)
            _import_contrib(copy.opset_import)  # of a function's domains the model has all
        _rewrite(nodes, opset, taken)
    return copy


def _bodies(model: onnx.ModelProto) -> Iterator[tuple[Any, Any]]:
    """The nodes of the model and of each of its functions, with the opsets that they are of."""
    yield model.graph.node, model.opset_import
    for function in model.functions:
        yield function.node, function.opset_import


def _names(model: onnx.ModelProto) -> set[str]:
    """What any value of the model is called."""
    nodes = [node for body, _ in _bodies(model) for node in walk(body)]
    graphs = [model.graph, *(graph for node in nodes for graph in nested_graphs(node))]
    found = {name for node in nodes for name in (*node.input, *node.output)}
    for graph in graphs:
        found.update(info.name for info in graph.input)
        found.update(tensor.name for tensor in graph.initializer)
        found.update(tensor.values.name for tensor in graph.sparse_initializer)
    for function in model.functions:
        found.update(function.input)
    return found


def _import_contrib(imports: Any) -> None:
    """``imports``: protobuf's list."""
    if all(entry.domain != CONTRIB for entry in imports):
        imports.append(helper.make_opsetid(CONTRIB, 1))


def _is_changed(nodes: Any, imports: Any) -> bool:
    """Whether a body has to be; both are protobuf's lists."""
    opset, members = opset_of(imports), list(walk(nodes))
    imported = any(entry.domain == CONTRIB for entry in imports)
    lacks = not imported and any(node.domain == CONTRIB for node in members)
    return lacks or any(_is_rewritten(node, opset) for node in members)


def _is_rewritten(node: onnx.NodeProto, opset: int) -> bool:
    zipped = node.domain == LEARNED and node.op_type == "ZipMap"
    return (
        zipped or _is_foreign(node, opset) or _is_old_group_norm(node, opset) or _lacks_side(node)
    )


def _is_foreign(node: onnx.NodeProto, opset: int) -> bool:
    return node.domain in DEFAULT_DOMAINS and opset < _STANDARD.get(node.op_type, 0)


def _is_old_group_norm(node: onnx.NodeProto, opset: int) -> bool:
    """Whether it is one that is complete; the checker refuses others."""
    named = node.domain in DEFAULT_DOMAINS and node.op_type == "GroupNormalization"
    if not named or opset not in _DEPRECATED or (len(node.input), len(node.output)) != (3, 1):
        return False
    return any(attribute.name == "num_groups" for attribute in node.attribute)


def _lacks_side(node: onnx.NodeProto) -> bool:
    named = node.domain in DEFAULT_DOMAINS and node.op_type == "STFT"
    return named and all(attribute.name != "onesided" for attribute in node.attribute)


def _give_scores(graph: onnx.GraphProto) -> None:
    """Outputs that would be dictionaries are tensors."""
    outputs = {info.name: info for info in graph.output}
    for node in graph.node:
        ends = (len(node.input), len(node.output))
        if node.op_type != "ZipMap" or node.domain != LEARNED or ends != (1, 1):
            continue
        (name,) = node.output
        if name in outputs:
            outputs[name].type.Clear()
            outputs[name].type.tensor_type.elem_type = TensorProto.FLOAT
            node.CopyFrom(helper.make_node("Identity", node.input, [name], node.name))


def _rewrite(nodes: Any, opset: int, taken: set[str]) -> None:
    """Replace what has to be, in nested graphs as well.

    Args:
        nodes: protobuf's list of them.
        opset: that they are of.
        taken: names of values; those that are made are added.
    """
    written: list[onnx.NodeProto] = []
    for node in nodes:
        for graph in nested_graphs(node):
            _rewrite(graph.node, opset, taken)
        if _lacks_side(node):
            node.attribute.append(helper.make_attribute("onesided", 1))
        if _is_foreign(node, opset):
            node.domain = CONTRIB
        written += _instances(node, taken) if _is_old_group_norm(node, opset) else [node]
    del nodes[:]
    nodes.extend(written)


def _instances(node: onnx.NodeProto, taken: set[str]) -> list[onnx.NodeProto]:
    """The normalisation of ``[batch, groups, all elements of a group]``."""
    data, scale, bias = node.input
    (result,) = node.output
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    epsilon = attributes.get("epsilon", _EPSILON)
    groups, rows, normal, shape = (
        _free(f"{result}/{part}", taken) for part in ("groups", "rows", "normal", "shape")
    )
    make = helper.make_node
    return [
        make("Constant", [], [groups], value_ints=[0, attributes["num_groups"], -1]),
        make("Reshape", [data, groups], [rows]),
        make("InstanceNormalization", [rows, scale, bias], [normal], node.name, epsilon=epsilon),
        make("Shape", [data], [shape]),
        make("Reshape", [normal, shape], [result]),
    ]


def _free(name: str, taken: set[str]) -> str:
    """``name``, or it with something behind it, so that no value is called so."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name
