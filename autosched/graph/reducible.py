"""Layers whose products may be of narrower numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.base import Shape, TensorType
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.matmul import Dense, MatMul, matmul_labels

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


def variable_products(graph: Graph) -> Iterator[Node]:
    """The products of two float32 operands of an optimised graph neither of which is a constant,
    both of which have rows that meet several of the other, as those of attention have.
    """
    for node in graph.nodes:
        if not isinstance(node.op, Einsum | MatMul) or node.op.dtype is not None:
            continue
        if len(set(node.inputs)) != 2 or len(node.inputs) != 2:
            continue
        if any(name in graph.constants for name in node.inputs):
            continue
        kinds = [graph.types[name] for name in node.inputs]
        if {kind.dtype for kind in kinds} == {_WIDE} and _are_reused(node.op, *kinds):
            yield node


def _are_reused(op: Einsum | MatMul, lhs: TensorType, rhs: TensorType) -> bool:
    """Whether elements of both operands are multiplied by several of the other, and summed."""
    labels, output = (
        (op.labels, op.output)
        if isinstance(op, Einsum)
        else matmul_labels(len(lhs.shape), len(rhs.shape))
    )
    wide = [
        {label for label, extent in zip(names, kind.shape, strict=True) if extent > 1}
        for names, kind in zip(labels, (lhs, rhs), strict=True)
    ]
    first, second = wide
    return bool(first - second and second - first and (first & second) - set(output))


def _is_wanted(op: Conv, weight: Shape, depthwise: bool) -> bool:
    if op.transposed or op.layout != "NHWC":
        return False
    return op.groups == 1 or (depthwise and op.weight(weight).is_plain)
