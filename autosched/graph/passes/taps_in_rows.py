"""Convolutions on units whose images have few channels: the taps of a row of a window lie together.

    conv([n, h, w, c], [p, q, c, o])   ->   conv([n, h, w * c, 1], [p, q * c, 1, o])

with a stride of ``c`` as much along rows.  A unit that adds dozens of products finds those of a
whole row of taps where it would find ``c``.  Zeros around the image are stored with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.shape import Pad, Transpose
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.rewriter import GraphRewriter
from sketch.lang.dtypes import size_of

_FEW_CHANNELS: Final = 4
_LANE_BYTES: Final = 4  # what units take together of an operand


def taps_in_rows(graph: Graph) -> Graph:
    """``graph`` with such convolutions; the graph itself where there are none."""
    found = {node.output for node in graph.nodes if _has_few_channels(graph, node)}
    return remove_dead_code(_TapsInRows(graph, found).run()) if found else graph


def _has_few_channels(graph: Graph, node: Node) -> bool:
    """Whether a convolution of narrow elements has taps in a row, whole lanes of them.

    Planes whose rows of taps are whole lanes are read where they are.
    """
    op = node.op
    if not isinstance(op, Conv) or op.transposed or op.layout != "NHWC" or op.groups > 1:
        return False
    weight = graph.constants.get(node.inputs[1])
    if op.dtype is None or weight is None or op.dilation[-1] > 1:
        return False
    *_, taps, channels, _ = weight.shape
    together = _LANE_BYTES // size_of(graph.types[node.inputs[0]].dtype)
    turned = graph.producers.get(node.inputs[0])
    planes = turned is not None and isinstance(turned.op, Transpose) and channels % together > 0
    whole = taps * channels % together == 0
    return taps > 1 and channels <= _FEW_CHANNELS and whole and not planes


class _TapsInRows(GraphRewriter):
    """The new graph while it grows."""

    def __init__(self, graph: Graph, found: set[str]) -> None:
        super().__init__(graph)
        self._found = found

    def convert(self, node: Node) -> None:
        """Emit ``node``; a convolution that was found in its other form."""
        op = node.op
        if node.output not in self._found or not isinstance(op, Conv):
            self.builder.copy(node, node.inputs)
            return
        data, weight, *bias = node.inputs
        value, shape = self._padded(op, data)
        *before, columns, channels = shape
        value = self.reshaped(value, (*before, columns * channels, 1), f"{data}.rows")
        *others, taps, _, outputs = self.shape(weight)
        factor = self.reshaped(weight, (*others, taps * channels, 1, outputs), f"{weight}.rows")
        strides = (*op.strides[:-1], op.strides[-1] * channels)
        op = replace(op, strides=strides, padding=(0,) * len(op.padding))
        self.builder.copy(node, (value, factor, *bias), op)

    def _padded(self, op: Conv, data: str) -> tuple[str, Shape]:
        """The image with the zeros of the convolution, and its shape; a pad before takes them."""
        shape, rank = self.shape(data), op.spatial
        if not any(op.padding):
            return data, shape
        low, high = (0, *op.padding[:rank], 0), (0, *op.padding[rank:], 0)
        source, made = data, self.graph.producers.get(data)
        if made is not None and isinstance(made.op, Pad) and made.op.value == 0:
            low = tuple(a + b for a, b in zip(low, made.op.low, strict=True))
            high = tuple(a + b for a, b in zip(high, made.op.high, strict=True))
            source = made.inputs[0]
        name = self.builder.unique(f"{data}.padded")
        value = self.builder.add(Pad(low, high), (source,), name, origins=())
        return value, self.builder.types[value].shape
