"""Inputs without elements that stand for nothing: what a decoder's caches hold before its prompt.

    Concat([], new)               ->  Concat(new)
    Attention(..., past = [])     ->  Attention(...)

Kernels work on values that have elements: such a node would be left to the host, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import onnx

from autosched.graph.ops.base import Shape

# By operator, which inputs are keys and values of the past; their positions are last but one.
_PAST: Final[Mapping[str, tuple[int, ...]]] = {
    "com.microsoft.Attention": (4,),
    "com.microsoft.GroupQueryAttention": (3, 4),
    "com.microsoft.MultiHeadAttention": (6, 7),
    "com.microsoft.QAttention": (8,),
}
_POSITIONS: Final = -2


def without_empty_past(
    node: onnx.NodeProto, operator: str, shape_of: Callable[[str], Shape | None]
) -> onnx.NodeProto:
    """``node`` without the inputs that have no positions: a copy, or itself where it has none.

    Args:
        node: the ONNX node.
        operator: its name, after its domain where that is not ONNX's own.
        shape_of: the extents of a value; None where they are not known.
    """
    if operator == "Concat":
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        kept = [name for name in node.input if not _is_empty(shape_of(name), axis)]
    else:
        past = _PAST.get(operator, ())
        kept = [
            "" if index in past and _is_empty(shape_of(name), _POSITIONS) else name
            for index, name in enumerate(node.input)
        ]
    if not any(kept) or kept == list(node.input):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.input[:]
    copy.input.extend(kept)
    return copy


def _is_empty(shape: Shape | None, axis: int) -> bool:
    """Whether a value would have elements, were there more than no places along ``axis``."""
    if shape is None or not -len(shape) <= axis < len(shape) or shape[axis]:
        return False
    return sum(extent == 0 for extent in shape) == 1
