"""Layers whose products may be of narrower numbers: those that multiply by constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.base import Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.matmul import Dense

_WIDE: Final = "float32"


def constant_layers(graph: Graph, depthwise: bool) -> Iterator[tuple[Node, Array]]:
    """The convolutions and products of an optimised graph of float32 data with a constant, and
    that constant.  Groups of several channels are left out: each has too few of them.

    ``depthwise``: with convolutions of each channel by itself.
    """
    for node in graph.nodes:
        if not isinstance(node.op, Conv | Dense) or node.op.dtype is not None:
            continue
        data, weight = node.inputs[:2]
        array = graph.constants.get(weight)
        if array is None or data in graph.constants:
            continue
        if isinstance(node.op, Conv) and not _is_wanted(node.op, array.shape, depthwise):
            continue
        if {graph.types[data].dtype, str(array.dtype)} == {_WIDE}:
            yield node, array


def _is_wanted(op: Conv, weight: Shape, depthwise: bool) -> bool:
    if op.transposed or op.layout != "NHWC":
        return False
    return op.groups == 1 or (depthwise and op.weight(weight).is_plain)
