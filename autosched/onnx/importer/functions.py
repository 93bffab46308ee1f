"""Nodes that stand for other nodes: operators with a function body."""

from __future__ import annotations

import onnx
from onnx import defs, helper, inliner

from autosched.host.node_names import made_unique
from autosched.onnx.importer.piece import Arrays, Setting, Types, make_piece
from autosched.onnx.importer.site import UnsupportedError
from autosched.onnx.importer.wide_quantisation import quantisation_body


def expanded(
    node: onnx.NodeProto, label: str, arrays: Arrays, types: Types, setting: Setting
) -> list[onnx.NodeProto]:
    """The nodes of the operator's function body in the ONNX standard, or one of ours, with names of
    their own.

    Args:
        node: the ONNX node.
        label: prefix of the new names.
        arrays: constants known so far, by name.
        types: types of values known so far, by name.
        setting: what all pieces of the model share.

    Raises:
        UnsupportedError: the operator has no function body.
    """
    written = quantisation_body(node, arrays, types)
    if written is not None:
        return made_unique(written, label, {name: name for name in node.output})
    version = next((entry.version for entry in setting.opsets if entry.domain == node.domain), 0)
    typed = all(name in arrays or name in types for name in node.input if name)
    if not version or not _has_body(node, version, typed):
        raise UnsupportedError("")
    outputs = [name for name in node.output if name]
    piece = make_piece([node], outputs, arrays, types, setting)
    if "" in node.input:  # the inliner wants a type of what is left out, too, and reads none
        piece.model.graph.value_info.append(helper.make_empty_tensor_value_info(""))
    try:
        model = inliner.inline_selected_functions(
            piece.model, [(node.domain, node.op_type)], inline_schema_functions=True
        )
    except Exception as error:  # the body may be of a version that the inliner cannot convert
        raise UnsupportedError(f"its function body cannot be expanded: {error}") from error
    body = list(model.graph.node)
    if any(inner.op_type == node.op_type and inner.domain == node.domain for inner in body):
        raise UnsupportedError("its function body cannot be expanded")
    return made_unique(body, label, {name: name for name in outputs})


def _has_body(node: onnx.NodeProto, version: int, typed: bool) -> bool:
    """Whether onnx can write the operator's body; ``typed``: the types of all inputs are known."""
    try:
        schema = defs.get_schema(node.op_type, version, node.domain)
    except defs.SchemaError:
        return False
    # onnx reads the types that a body depends on, sequences' as well, without looking for them
    return bool(schema.has_function or (schema.has_context_dependent_function and typed))
