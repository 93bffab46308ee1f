"""Values known at import: computed shapes, generated weights, de-quantised constants."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray

from autosched.graph.ops.base import TensorType
from autosched.host.evaluator import HostError, HostEvaluator
from autosched.host.node_names import nested_graphs
from autosched.onnx.importer.domains import DEFAULT_DOMAINS
from autosched.onnx.importer.piece import Arrays, Setting, Types, inferred_types, make_piece
from autosched.onnx.importer.reference_gaps import reference_gap
from autosched.onnx.importer.site import UnsupportedError
from autosched.system.element_types import element_type

MAX_FOLDED_BYTES: Final = 1 << 31
"""No constant that is computed at import may be larger: checked before it is computed."""


def fold_node(
    node: onnx.NodeProto, arrays: Arrays, types: Types, setting: Setting
) -> dict[str, NDArray[Any]] | None:
    """The outputs of a node that depends on constants and static shapes only.

    None if it depends on more, or onnx's own evaluator does not know it, or fails, or computes
    something else than the standard says.

    Args:
        node: the ONNX node.
        arrays: constants known so far, by name.
        types: types of values known so far, by name.
        setting: what all pieces of the model share.

    Raises:
        UnsupportedError: a result is too large.
    """
    default = node.domain in DEFAULT_DOMAINS
    empty = _empty_outputs(node, setting)
    if empty is not None:
        return empty
    if default and node.op_type in ("Shape", "Size") and node.input[0] in types:
        return {node.output[0]: _shape_of(node, types[node.input[0]])}
    stand_ins = _stand_ins(node, types) if default else {}
    if stand_ins:
        arrays = {**arrays, **stand_ins}
    given = [name for name in node.input if name]
    source = default and node.op_type == "Constant"
    if any(nested_graphs(node)) or any(name not in arrays for name in given):
        return None
    if (not given and not source) or reference_gap([node], setting.opset) is not None:
        return None
    names = [name for name in node.output if name]
    piece = make_piece([node], names, arrays, types, setting)
    for name, kind in ({} if source else inferred_types(piece.model)).items():
        _check_size(name, kind)
    try:
        evaluator = HostEvaluator(node.op_type, piece.serialized())
    except HostError:
        return None  # not in this version: there may be an importer, whose graph is folded
    try:
        values = evaluator.raw([])
    except HostError:
        return None  # onnx's evaluator has faults: the node's importer may do without it
    if not all(isinstance(value, np.ndarray | np.generic) for value in values):
        return None  # sequences and optionals stay within host operators
    return {name: _plain(value) for name, value in zip(names, values, strict=True)}


def _stand_ins(node: onnx.NodeProto, types: Types) -> dict[str, NDArray[Any]]:
    """Zeros for an input of which only the type is read: shape and dtype, or dtype alone."""
    *data, name = node.input or ("",)
    if node.op_type not in ("EyeLike", "CastLike") or name in data or name not in types:
        return {}
    kind = types[name]
    if node.op_type == "CastLike":
        return {name: np.zeros((), element_type(kind.dtype))} if data else {}
    _check_size(node.output[0], kind)
    return {name: np.zeros(kind.shape, element_type(kind.dtype))}


def _empty_outputs(node: onnx.NodeProto, setting: Setting) -> dict[str, NDArray[Any]] | None:
    """The outputs of a node that computes no element at all, whatever it is given."""
    kinds = {name: setting.inferred.get(name) for name in node.output if name}
    known = {name: kind for name, kind in kinds.items() if kind is not None and kind.size == 0}
    if not known or len(known) < len(kinds):
        return None
    return {name: np.zeros(k.shape, element_type(k.dtype)) for name, k in known.items()}


def _check_size(name: str, kind: TensorType) -> None:
    if kind.size_bytes > MAX_FOLDED_BYTES:
        raise UnsupportedError(
            f"its constant output {name!r} has {kind.size_bytes:,} bytes, more than "
            f"{MAX_FOLDED_BYTES:,}"
        )


def _plain(value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


def _shape_of(node: onnx.NodeProto, kind: TensorType) -> NDArray[np.int64]:
    if node.op_type == "Size":
        return np.asarray(kind.size, dtype=np.int64)
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    return np.asarray(kind.shape[bounds.get("start", 0) : bounds.get("end")], dtype=np.int64)
