"""Pieces of ONNX models that host operators hold, as parts of a model."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import version_converter

from autosched.graph.errors import GraphError
from autosched.graph.ir import Graph
from autosched.graph.ops.host import HostFunction, HostOp
from autosched.host.node_names import made_unique, walk
from autosched.onnx.export.terms import OPSET
from autosched.onnx.export.writer import ModelWriter

_DEFAULT_DOMAINS = ("", "ai.onnx")


def opset_for(graph: Graph) -> int:
    """The version of the default operators: ours, or a later one of the pieces in a graph."""
    functions = {node.op.function for node in graph.nodes if isinstance(node.op, HostOp)}
    models = (onnx.load_model_from_string(function.payload) for function in functions)
    changes = [_changes(model, _version(model)).values() for model in models]
    return max([OPSET, *(version for found in changes for version in found)])


def write_piece(
    function: HostFunction, inputs: Sequence[str], name: str, writer: ModelWriter
) -> list[str]:
    """The nodes of a host function; returns the names of its results.

    Args:
        function: what is computed.
        inputs: names of what it is given.
        name: all names that are made up start with it.
        writer: that nodes are added to.

    Raises:
        GraphError: its operators are not in the model's version of the operator sets.
    """
    model = onnx.load_model_from_string(function.payload)
    piece = _in_version(model, writer.opsets[""], function.operator).graph
    for opset in model.opset_import:
        if opset.domain not in _DEFAULT_DOMAINS:
            writer.import_domain(opset.domain, opset.version)
    prefix = writer.free_prefix(name)
    constants = {tensor.name: f"{prefix}/{tensor.name}" for tensor in piece.initializer}
    own = [value.name for value in piece.input if value.name not in constants]
    given = constants | dict(zip(own, inputs, strict=True))
    nodes = made_unique(piece.node, prefix, given)
    for tensor in piece.initializer:
        tensor.name = constants[tensor.name]
    writer.constants.extend(piece.initializer)
    writer.nodes.extend(nodes)
    return [given.get(value.name, f"{prefix}/{value.name}") for value in piece.output]


def _version(model: onnx.ModelProto) -> int:
    """That of the default operators; ours where it has none of them."""
    versions = [opset.version for opset in model.opset_import if opset.domain in _DEFAULT_DOMAINS]
    return versions[0] if versions else OPSET


def _changes(model: onnx.ModelProto, version: int) -> dict[str, int]:
    """The version since which each default operator of a model is what it is in ``version``."""
    names = {node.op_type for node in walk(model.graph.node) if node.domain in _DEFAULT_DOMAINS}
    return {name: onnx.defs.get_schema(name, version).since_version for name in names}


def _in_version(model: onnx.ModelProto, version: int, operator: str) -> onnx.ModelProto:
    """The model in a version of the default operators, itself where these are the same there.

    Raises:
        GraphError: it cannot be converted.
    """
    if model.functions or len(model.graph.sparse_initializer):
        raise GraphError(f"{operator} on the host has functions or sparse constants")
    try:
        if _changes(model, _version(model)) == _changes(model, version):
            return model
        return version_converter.convert_version(model, version)
    except Exception as error:  # an operator is gone, or whatever the converter has no rule for
        raise GraphError(
            f"{operator} on the host, of opset {_version(model)}, has no ONNX form in {version}"
        ) from error
