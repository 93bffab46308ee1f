"""Zero padding before a convolution becomes the convolution's own, which never stores it."""

from __future__ import annotations

from dataclasses import replace

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.conv import Conv2d
from autosched.graph.ops.shape import Pad


def fold_padding(graph: Graph) -> Graph:
    """Convolutions read what a zero padding of height and width reads; the pad may stay for others.

    Only convolutions: a maximum over padding differs from one over zeros.
    """
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        pad = graph.producers.get(node.inputs[0])
        folded = None if pad is None else _padded(node, pad)
        if folded is None or pad is None:
            builder.copy(node, node.inputs)
        else:
            inputs = (pad.inputs[0], *node.inputs[1:])
            origins = (*pad.origins, *node.origins)
            builder.add(folded, inputs, node.output, node.name, origins)
    return builder.finish(graph.results)


def _padded(node: Node, pad: Node) -> Conv2d | None:
    """The convolution ``node`` with the padding of ``pad`` added; None if that is not possible."""
    if not isinstance(node.op, Conv2d) or not isinstance(pad.op, Pad) or pad.op.value != 0:
        return None
    height, width = (2, 3) if node.op.layout == "NCHW" else (1, 2)
    others = [d for d in range(4) if d not in (height, width)]
    if any(pad.op.low[d] or pad.op.high[d] for d in others):
        return None
    low, high = pad.op.low, pad.op.high
    extra = (low[height], low[width], high[height], high[width])
    sides = zip(node.op.padding, extra, strict=True)
    top, left, bottom, right = (own + more for own, more in sides)
    return replace(node.op, padding=(top, left, bottom, right))
