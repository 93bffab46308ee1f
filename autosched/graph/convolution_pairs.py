"""Pointwise and depthwise convolutions share a kernel where much lies between them.

    expanded = clip(pointwise(x))
    filtered = clip(depthwise(expanded))        ->     one group

What is between them is several times as large as what comes and goes.  In one kernel it is as large
as a block of rows, and stays in a core's cache (``sketch.rules.pairs``).
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from autosched.graph.fusion import MOST_NODES, FusedGroup
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.conv import Conv
from sketch.lang.dtypes import size_of


class _Pair(NamedTuple):
    """Two groups, the second the only reader of the first, and the bytes of what it reads."""

    first: FusedGroup
    second: FusedGroup
    size: int


def pair_convolutions(
    graph: Graph, groups: tuple[FusedGroup, ...], cache_bytes: int
) -> tuple[FusedGroup, ...]:
    """The groups of ``graph``, some pairs of them joined, in execution order.

    A group is in one pair: that with the most between; of two with as much the later one, which
    computes nothing twice where it ends with a pointwise convolution.

    Args:
        graph: with channels last.
        groups: in execution order.
        cache_bytes: what the caches of all threads' own hold: less than half of it is left where it
            is, for it is still there when it is read.
    """
    by_root = {group.root.output: group for group in groups}
    found = [pair for group in groups if (pair := _pair(graph, group, by_root)) is not None]
    joined: dict[str, FusedGroup | None] = {}
    for first, second, size in sorted(reversed(found), key=lambda pair: -pair.size):
        roots = (first.root.output, second.root.output)
        if 2 * size >= cache_bytes and joined.keys().isdisjoint(roots):
            joined |= {roots[0]: None, roots[1]: FusedGroup((*first.nodes, *second.nodes))}
    placed = (joined.get(group.root.output, group) for group in groups)
    return tuple(group for group in placed if group is not None)


def _pair(graph: Graph, group: FusedGroup, by_root: dict[str, FusedGroup]) -> _Pair | None:
    """``group`` and the one that computes the data of its convolution, for it alone."""
    reader = group.nodes[0]
    if not isinstance(reader.op, Conv) or (data := reader.inputs[0]) in graph.result_values:
        return None
    first, alone = by_root.get(data), graph.consumers.get(data, ()) == (reader,)
    if first is None or not alone or len(first.nodes) + len(group.nodes) > MOST_NODES:
        return None
    depthwise = [_is_depthwise(graph, node) for node in (first.nodes[0], reader)]
    pointwise = [_is_pointwise(graph, node) for node in (first.nodes[0], reader)]
    if not any(depthwise) or not all(d or p for d, p in zip(depthwise, pointwise, strict=True)):
        return None
    kind = graph.types[data]
    return _Pair(first, group, prod(kind.shape) * size_of(kind.dtype))


def _is_depthwise(graph: Graph, node: Node) -> bool:
    """Whether a node is a convolution of each channel with a constant filter of its own."""
    op = node.op
    if not isinstance(op, Conv) or not _is_plain(graph, node, op):
        return False
    form = op.weight(graph.types[node.inputs[1]].shape)
    return form.is_depthwise and form.is_plain


def _is_pointwise(graph: Graph, node: Node) -> bool:
    """Whether a node is a product of each pixel with a constant matrix."""
    op = node.op
    if not isinstance(op, Conv) or not _is_plain(graph, node, op):
        return False
    form = op.weight(graph.types[node.inputs[1]].shape)
    return op.groups == 1 and {*form.kernel, *op.strides} == {1} and not any(op.padding)


def _is_plain(graph: Graph, node: Node, op: Conv) -> bool:
    """Whether a convolution is one of single floats with constants, channels last."""
    if op.transposed or op.layout != "NHWC" or op.dtype is not None:
        return False
    floats = {graph.types[name].dtype for name in (*node.inputs[:2], node.output)} == {"float32"}
    return floats and node.inputs[1] in graph.constants
