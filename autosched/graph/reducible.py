"""Layers whose products may be of narrower numbers: those that multiply by constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.matmul import Dense

_WIDE: Final = "float32"


def constant_layers(graph: Graph) -> Iterator[tuple[Node, Array]]:
    """The convolutions and products of an optimised graph of float32 data with a constant, and
    that constant.  Groups of channels are left out: each has too few of them.
    """
    for node in graph.nodes:
        if not isinstance(node.op, Conv | Dense) or node.op.dtype is not None:
            continue
        if isinstance(node.op, Conv) and not _is_dense(node.op):
            continue
        data, weight = node.inputs[:2]
        array = graph.constants.get(weight)
        if array is None or data in graph.constants:
            continue
        if {graph.types[data].dtype, str(array.dtype)} == {_WIDE}:
            yield node, array


def _is_dense(op: Conv) -> bool:
    return not op.transposed and op.groups == 1 and op.layout == "NHWC"
