"""Pieces of ONNX models that host operators hold, as parts of a model."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import compose, version_converter

from autosched.graph.errors import GraphError
from autosched.graph.ops.host import HostFunction
from autosched.onnx.export.terms import OPSET
from autosched.onnx.export.writer import Writer

_OWN_DOMAINS = ("", "ai.onnx")


def write_piece(
    function: HostFunction, inputs: Sequence[str], name: str, writer: Writer
) -> list[str]:
    """The nodes of a host function; returns the names of its results.

    Args:
        function: what is computed.
        inputs: names of what it is given.
        name: all names that are made up start with it.
        writer: that nodes are added to.

    Raises:
        GraphError: its operators are not in this version of the operator sets.
    """
    model = _of_our_version(onnx.load_model_from_string(function.payload), function.operator)
    piece = compose.add_prefix(model, f"{writer.fresh(name)}/")
    for opset in piece.opset_import:
        writer.import_domain(opset.domain, opset.version)
    constants = {tensor.name for tensor in piece.graph.initializer}
    own = [value.name for value in piece.graph.input if value.name not in constants]
    for given, target in zip(inputs, own, strict=True):
        writer.identity(given, target)
    writer.constants.extend(piece.graph.initializer)
    writer.nodes.extend(piece.graph.node)
    return [value.name for value in piece.graph.output]


def _of_our_version(model: onnx.ModelProto, operator: str) -> onnx.ModelProto:
    versions = [o.version for o in model.opset_import if o.domain in _OWN_DOMAINS]
    if model.functions or len(model.graph.sparse_initializer):
        raise GraphError(f"{operator} on the host has functions or sparse constants")
    if versions in ([], [OPSET]):
        return model
    try:
        return version_converter.convert_version(model, OPSET)
    except Exception as error:  # whatever the converter has no rule for
        raise GraphError(
            f"{operator} on the host, of opset {versions[0]}, has no ONNX form in {OPSET}"
        ) from error
