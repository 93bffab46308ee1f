"""Which values an operator that works channels last reads in the end."""

from __future__ import annotations

from autosched.graph.ir import Graph
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.norm import BatchNorm
from autosched.graph.ops.pooling import GlobalPool, Pool


def feeds_channels_last(graph: Graph) -> frozenset[str]:
    """Values that convolutions, pools or batch-norms read, at once or through other operators.

    A matrix product lies between its operands and whatever reads it: its result is in an order of
    its own.
    """
    found: set[str] = set()
    for node in reversed(graph.nodes):
        if isinstance(node.op, Conv | Pool | GlobalPool | BatchNorm):
            found.add(node.inputs[0])
        elif node.output in found and not isinstance(node.op, Dense | MatMul | Einsum):
            found.update(node.inputs)
    return frozenset(found)
