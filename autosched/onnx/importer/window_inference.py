"""Shapes of pools and transposed convolutions where onnx's inference has others than every runtime.

A window of a pool that would begin beyond the data and their low padding does not exist: the
specification says so, and every runtime leaves it out, but onnx's inference counts it where the
number of windows is rounded up.  A transposed convolution with ``auto_pad`` SAME has an output of
extent times stride, where its windows reach as far; onnx's inference adds the output padding to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import onnx
from onnx import helper

from autosched.onnx.importer.domains import DEFAULT_DOMAINS
from autosched.onnx.importer.piece import type_of

_POOLS: Final = ("AveragePool", "LpPool", "MaxPool")
_SAME: Final = (b"SAME_UPPER", b"SAME_LOWER")
_Inference = Callable[[onnx.ModelProto], onnx.ModelProto]


def infer_with_windows(model: onnx.ModelProto, infer: _Inference) -> onnx.ModelProto:
    """``infer(model)``, with the types that follow from the right shapes of all such nodes.

    Raises what ``infer`` raises.
    """
    inferred = infer(model)
    doubtful = [
        (index, form)
        for index, node in enumerate(model.graph.node)
        if (form := _stand_in_of(node)) is not None
    ]
    if not doubtful:
        return inferred
    stand_in = onnx.ModelProto()
    stand_in.CopyFrom(model)
    for index, form in doubtful:  # in the graph's order: one shape decides on the next one's
        node = stand_in.graph.node[index]
        changed = form(node, inferred)
        if changed is not None:
            _set(node, changed)
            inferred = infer(stand_in)
    del inferred.graph.node[:]
    inferred.graph.node.extend(model.graph.node)
    return inferred


_StandIn = Callable[[onnx.NodeProto, onnx.ModelProto], Mapping[str, Any] | None]


def _stand_in_of(node: onnx.NodeProto) -> _StandIn | None:
    """What makes attributes of which onnx infers the right shape; None: it does so anyway."""
    mode = _attribute(node, "auto_pad", b"NOTSET")
    if node.domain not in DEFAULT_DOMAINS:
        return None
    if node.op_type in _POOLS and mode == b"NOTSET" and _attribute(node, "ceil_mode", 0):
        return _rounded_down
    if node.op_type == "ConvTranspose" and mode in _SAME:
        return _without_extent if any(_attribute(node, "output_padding", ())) else None
    return None


def _without_extent(node: onnx.NodeProto, inferred: onnx.ModelProto) -> Mapping[str, Any] | None:
    """Output padding for no more than that the windows reach extent times stride."""
    kernel = tuple(_attribute(node, "kernel_shape", ())) or _spatial(inferred, node.input[1])
    extra = _attribute(node, "output_padding", ())
    rank = len(extra)
    strides = _attribute(node, "strides", (1,) * rank)
    dilations = _attribute(node, "dilations", (1,) * rank)
    if _attribute(node, "output_shape", ()) or len(kernel) != rank:
        return None
    added = []
    for window, dilation, stride, more in zip(kernel, dilations, strides, extra, strict=True):
        reach = (window - 1) * dilation + 1
        added.append(min(stride, reach + more) - min(stride, reach))
    return {"output_padding": added}


def _rounded_down(node: onnx.NodeProto, inferred: onnx.ModelProto) -> Mapping[str, Any] | None:
    """Padding that gives the right number of windows when that is rounded down.

    None if onnx's rounding up gives it, too, or the shape is not known.
    """
    spatial = _spatial(inferred, node.input[0])
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
    return {"ceil_mode": 0, "pads": (*pads[:rank], *high)} if dropped else None


def _spatial(model: onnx.ModelProto, name: str) -> Sequence[int]:
    """Extents behind the first two; none if they are not known."""
    graph = model.graph
    for info in (*graph.input, *graph.value_info):
        if info.name == name:
            kind = type_of(info)
            return () if kind is None else kind.shape[2:]
    return next((tensor.dims[2:] for tensor in graph.initializer if tensor.name == name), ())


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def _set(node: onnx.NodeProto, values: Mapping[str, Any]) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name not in values]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(*item) for item in values.items())])
