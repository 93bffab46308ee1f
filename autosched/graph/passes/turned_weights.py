"""Attention whose weights are the second operand, transposed, has them first.

    v [c, j] @ transpose(softmax(s [i, j]))  ->  transpose(softmax(s) @ transpose(v))

as networks of images write it, whose maps are [channels, places].  Weights are made a row at a
time, and a row of them makes a row of results.
"""

from __future__ import annotations

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.elementwise import Elementwise
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.shape import Transpose
from autosched.graph.ops.softmax import Softmax

Permutation = tuple[int, ...]


def turn_weights(graph: Graph) -> Graph:
    """``graph`` with the rewrite above; transposes that nothing reads any more stay."""
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        weights = _weights(graph, node)
        if weights is None:
            builder.copy(node, node.inputs)
            continue
        turned = []
        for name in (node.inputs[0], node.output):
            order = _swapped(len(graph.types[name].shape))
            turned.append(Transpose(order))
        values = builder.add(turned[0], (node.inputs[0],), origins=())
        product = builder.unique(f"{node.output}.turned")
        builder.add(node.op, (weights, values), product, node.name, node.origins)
        label = builder.unique(f"{node.name}.turn")
        builder.add(turned[1], (product,), node.output, label, ())
    return builder.finish(graph.results)


def _swapped(rank: int) -> Permutation:
    return (*range(rank - 2), rank - 1, rank - 2)


def _weights(graph: Graph, node: Node) -> str | None:
    """What is transposed to be the second operand, if it is a softmax along its last dimension."""
    if not isinstance(node.op, MatMul):
        return None
    ranks = [len(graph.types[name].shape) for name in node.inputs]
    source = graph.producers.get(node.inputs[1])
    if min(ranks) < 2 or source is None or source.op != Transpose(_swapped(ranks[1])):
        return None
    return source.inputs[0] if _are_weights(graph, source.inputs[0]) else None


def _are_weights(graph: Graph, name: str) -> bool:
    """Whether a value is a softmax along its last dimension, or made of one element by element."""
    pending, seen, kind = [name], {name}, graph.types[name]
    while pending:
        node = graph.producers.get(pending.pop())
        if node is None:
            continue
        if isinstance(node.op, Softmax):
            if not node.op.log and node.op.axis in (-1, len(kind.shape) - 1):
                return True
        elif isinstance(node.op, Elementwise):
            alike = {operand for operand in node.inputs if graph.types[operand] == kind} - seen
            pending += sorted(alike)
            seen |= alike
    return False
