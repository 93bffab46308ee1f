"""Shapes of pools whose number of windows is rounded up, where onnx's inference counts too many.

A window that would begin beyond the data and their low padding does not exist: the specification
says so, and every runtime leaves it out, but onnx's inference counts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import onnx
from onnx import helper

from autosched.onnx.importer.piece import type_of

_POOLS: Final = ("AveragePool", "LpPool", "MaxPool")
_Inference = Callable[[onnx.ModelProto], onnx.ModelProto]
_Pads = tuple[int, ...]


def infer_with_pools(model: onnx.ModelProto, infer: _Inference) -> onnx.ModelProto:
    """``infer(model)``, with the types that follow from the right shapes of all pools.

    Raises what ``infer`` raises.
    """
    inferred = infer(model)
    pools = [index for index, node in enumerate(model.graph.node) if _rounds_up(node)]
    if not pools:
        return inferred
    stand_in = onnx.ModelProto()
    stand_in.CopyFrom(model)
    for index in pools:  # in the graph's order: one pool's shape decides on the next one's
        node = stand_in.graph.node[index]
        pads = _pads_rounded_down(node, _spatial(inferred, node.input[0]))
        if pads is not None:
            _set(node, "ceil_mode", 0)
            _set(node, "pads", pads)
            inferred = infer(stand_in)
    del inferred.graph.node[:]
    inferred.graph.node.extend(model.graph.node)
    return inferred


def _rounds_up(node: onnx.NodeProto) -> bool:
    explicit = _attribute(node, "auto_pad", b"NOTSET") == b"NOTSET"
    known = node.op_type in _POOLS and node.domain in ("", "ai.onnx")
    return known and explicit and bool(_attribute(node, "ceil_mode", 0))


def _pads_rounded_down(node: onnx.NodeProto, spatial: Sequence[int]) -> _Pads | None:
    """Padding that gives the right number of windows when that is rounded down.

    None if onnx's rounding up gives it, too, or the shape is not known.
    """
    kernel = tuple(_attribute(node, "kernel_shape", ()))
    rank = len(kernel)
    if len(spatial) != rank:
        return None
    strides = _attribute(node, "strides", (1,) * rank)
    dilations = _attribute(node, "dilations", (1,) * rank)
    pads = tuple(_attribute(node, "pads", (0,) * (2 * rank)))
    high, dropped = [], False
    for d, (extent, window, stride, dilation) in enumerate(
        zip(spatial, kernel, strides, dilations, strict=True)
    ):
        low = pads[d]
        free = extent + low + pads[rank + d] - (window - 1) * dilation - 1
        outside = -(-free // stride) * stride >= extent + low
        dropped = dropped or outside
        high.append(pads[rank + d] + (0 if outside else stride - 1))
    return (*pads[:rank], *high) if dropped else None


def _spatial(model: onnx.ModelProto, name: str) -> tuple[int, ...]:
    """Extents behind batch and channels; none if they are not known."""
    graph = model.graph
    for info in (*graph.input, *graph.value_info):
        if info.name == name:
            kind = type_of(info)
            return () if kind is None else kind.shape[2:]
    return ()


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def _set(node: onnx.NodeProto, name: str, value: Any) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
