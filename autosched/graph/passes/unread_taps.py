"""Taps of a convolution that lie in the padding for every result are left out.

Filters may be as wide as the image, or wider: dilated ones of segmentation networks, or those of
the last, smallest maps of a detector.  Of 3x3 taps that are 24 apart, an image of 16x16 meets the
one in the middle: it is a 1x1 convolution, with a ninth of the weights.

    y[h] = sum over t < k of x[h * s + t * d - p] * f[t]                 where x has them
         = sum over t < k' of x[h * s + t * d - p'] * f[t + first]       p' = p - first * d
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.conv import Conv, window_count


def drop_unread_taps(graph: Graph) -> Graph:
    """``graph`` with smaller filters, where these are constants; itself where all taps are read.

    A tap in the padding is not multiplied, so infinite weights there made no NaN either.
    """
    found = {node.output: lines for node in graph.nodes if (lines := _lines(graph, node))}
    if not found:
        return graph
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        if node.output in found:
            _emit(builder, graph, node, found[node.output])
        else:
            builder.copy(node, node.inputs)
    return builder.finish(graph.results)


@dataclass(frozen=True, slots=True)
class _Line:
    """A convolution along one dimension.

    Attributes:
        extent: elements of the image.
        results: how many there are.
        stride: of the results, in elements.
        first, last: of its taps, those that it reads or more.
        dilation: distance of taps, in elements.
        low, high: zeros before and after the image.
    """

    extent: int
    results: int
    stride: int
    first: int
    last: int
    dilation: int
    low: int
    high: int

    def read(self) -> list[int]:
        """The taps that meet the image, for some result."""
        return [tap for tap in range(self.first, self.last + 1) if self._meets(tap)]

    def _meets(self, tap: int) -> bool:
        before = self.low - tap * self.dilation  # of the image, where the tap begins
        result = max(0, -(-before // self.stride))
        return result < self.results and result * self.stride - before < self.extent

    def cut(self) -> _Line:
        """Without the taps at both ends that are not read, as far as the padding reaches; the line
        itself where that is no convolution with as many results.
        """
        taps = self.read()
        if not taps or len(taps) > self.last - self.first:
            return self
        first = min(taps[0], self.low // self.dilation)
        low, taps_left = self.low - first * self.dilation, taps[-1] - first
        dilation = self.dilation if taps_left else 1
        reach = (self.results - 1) * self.stride + taps_left * dilation + 1
        high = max(0, reach - self.extent - low)
        line = replace(self, first=first, last=taps[-1], dilation=dilation, low=low, high=high)
        fewer = line.last - line.first < self.last - self.first
        return line if fewer and line.count() == self.results else self

    def count(self) -> int:
        """Results of a convolution with these numbers; 0 where there is none."""
        taps = self.last - self.first + 1
        try:
            pads = (self.low, self.high)
            return window_count(self.extent, taps, self.stride, self.dilation, pads)
        except GraphError:
            return 0


def _lines(graph: Graph, node: Node) -> tuple[_Line, ...]:
    """The dimensions of a convolution some of whose taps are not read; empty for other nodes."""
    op = node.op
    if not isinstance(op, Conv) or op.transposed or op.layout != "NCHW":
        return ()
    if node.inputs[1] not in graph.constants:
        return ()
    rank = op.spatial
    data, kernel, results = (
        graph.types[name].shape[2:] for name in (node.inputs[0], node.inputs[1], node.output)
    )
    lines = tuple(
        _Line(extent, count, stride, 0, taps - 1, dilation, low, high)
        for extent, taps, count, stride, dilation, low, high in zip(
            data, kernel, results, op.strides, op.dilation,
            op.padding[:rank], op.padding[rank:], strict=True,
        )
    )  # fmt: skip
    cut = tuple(line.cut() for line in lines)
    return () if all(new is line for new, line in zip(cut, lines, strict=True)) else cut


def _emit(builder: GraphBuilder, graph: Graph, node: Node, lines: tuple[_Line, ...]) -> None:
    assert isinstance(node.op, Conv)
    taps = (slice(line.first, line.last + 1) for line in lines)
    data, weight, *bias = node.inputs
    filters = np.ascontiguousarray(graph.constants[weight][(slice(None), slice(None), *taps)])
    name = builder.constant(builder.unique(f"{weight}.read"), filters)
    op = replace(
        node.op,
        padding=(*(line.low for line in lines), *(line.high for line in lines)),
        dilation=tuple(line.dilation for line in lines),
    )
    builder.copy(node, (data, name, *bias), op)
