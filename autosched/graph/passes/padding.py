"""Zero padding before a convolution becomes the convolution's own, which never stores it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.shape import Pad
from sketch.lang.dtypes import BYTES

_FEW_CHANNELS: Final = 3  # fewer than a lane of a unit takes


def fold_padding(graph: Graph) -> Graph:
    """Convolutions read what a zero padding reads; the pad may stay for other readers.

    Only convolutions: a maximum over padding differs from one over zeros.  Only with
    finite constant weights: zero times infinity is NaN, but a padded tap is not multiplied.  And
    not where bytes of few channels are padded, so that tensor units find whole rows.
    """
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        pad = graph.producers.get(node.inputs[0]) if node.inputs else None
        folded = None if pad is None else _padded(node, pad)
        if folded is not None and (_is_picture(graph, node) or not _has_finite_weight(graph, node)):
            folded = None
        if folded is None or pad is None:
            builder.copy(node, node.inputs)
        else:
            inputs = (pad.inputs[0], *node.inputs[1:])
            origins = (*pad.origins, *node.origins)
            builder.add(folded, inputs, node.output, node.name, origins)
    return builder.finish(graph.results)


def _is_picture(graph: Graph, node: Node) -> bool:
    data = graph.types[node.inputs[0]]
    return data.dtype in BYTES and data.shape[1] <= _FEW_CHANNELS


def _has_finite_weight(graph: Graph, node: Node) -> bool:
    weight = graph.constants.get(node.inputs[1])
    return weight is not None and bool(np.isfinite(weight).all())


def _padded(node: Node, pad: Node) -> Conv | None:
    """The convolution ``node`` with the padding of ``pad`` added; None if that is not possible."""
    if not isinstance(node.op, Conv) or node.op.transposed or not isinstance(pad.op, Pad):
        return None
    rank, low, high = node.op.spatial, pad.op.low, pad.op.high
    first = 2 if node.op.layout == "NCHW" else 1
    spatial = slice(first, first + rank)
    others = [d for d in range(rank + 2) if d not in range(first, first + rank)]
    if pad.op.value != 0 or any(low[d] or high[d] for d in others):
        return None
    sides = zip(node.op.padding, (*low[spatial], *high[spatial]), strict=True)
    return replace(node.op, padding=tuple(own + more for own, more in sides))
