"""Products whose rows weigh those of another product share its kernel.

    scores  = queries @ keys, and what is added to them
    weights = softmax(scores)              ->     one group
    mixed   = weights @ values

The scores of attention are many, and nobody else reads them: in one kernel they are as many as a
block of rows has, and stay in a core's cache (``sketch.rules.chains``).
"""

from __future__ import annotations

from math import prod
from typing import Final

from autosched.graph.fusion import MOST_NODES, FusedGroup
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.softmax import Softmax

_LEAST_ROWS: Final = 64
_TYPES: Final = ("float32", "bfloat16")


def chain_products(graph: Graph, groups: tuple[FusedGroup, ...]) -> tuple[FusedGroup, ...]:
    """The groups of ``graph``, those of attention joined, in execution order."""
    by_root = {group.root.output: group for group in groups}
    joined: dict[str, FusedGroup | None] = {}
    for group in groups:
        for weights, scores in _weights_of(graph, group, by_root):
            nodes = (*scores.nodes, *weights.nodes, *group.nodes)
            # The scores of one chain may be what another one makes.
            if len(nodes) <= MOST_NODES and scores.root.output not in joined:
                joined |= dict.fromkeys((scores.root.output, weights.root.output))
                joined[group.root.output] = FusedGroup(nodes)
                break
    found = (joined.get(group.root.output, group) for group in groups)
    return tuple(group for group in found if group is not None)


def _weights_of(
    graph: Graph, group: FusedGroup, by_root: dict[str, FusedGroup]
) -> list[tuple[FusedGroup, FusedGroup]]:
    """The groups that make the weights of a product for it alone, and their scores."""
    product = group.nodes[0]
    if not _is_of_activations(graph, product):
        return []
    found = []
    for operand, name in enumerate(product.inputs):
        weights = _made_for(graph, name, product, by_root)
        if weights is None or not isinstance(softmax := weights.nodes[0].op, Softmax):
            continue
        scores = _made_for(graph, weights.nodes[0].inputs[0], weights.nodes[0], by_root)
        if scores is None or not _is_of_activations(graph, scores.nodes[0]):
            continue
        shape = graph.types[name].shape
        axis = softmax.axis % len(shape)
        if _is_summed(product, operand, axis, len(shape)) and _rows(shape, axis) >= _LEAST_ROWS:
            found.append((weights, scores))
    return found


def _rows(shape: tuple[int, ...], axis: int) -> int:
    """How many sums of weights there are; few are no blocks for threads."""
    return prod(shape) // shape[axis]


def _made_for(
    graph: Graph, name: str, reader: Node, by_root: dict[str, FusedGroup]
) -> FusedGroup | None:
    """The group whose result one node alone reads, once."""
    alone = graph.consumers.get(name, ()) == (reader,) and name not in graph.result_values
    alone = alone and reader.inputs.count(name) == 1
    return by_root.get(name) if alone and graph.types[name].dtype in _TYPES else None


def _is_of_activations(graph: Graph, node: Node) -> bool:
    """Whether a node is a product of two matrices, neither of which is constant."""
    variable = not any(name in graph.constants for name in node.inputs)
    return isinstance(node.op, Einsum | MatMul) and len(node.inputs) == 2 and variable


def _is_summed(product: Node, operand: int, axis: int, rank: int) -> bool:
    """Whether a product sums over an axis of an operand."""
    if isinstance(product.op, Einsum):
        return product.op.labels[operand][axis] not in product.op.output
    return axis == rank - 1 - operand  # of a MatMul: the last of the first, the other of the second
