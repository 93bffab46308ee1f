"""A constant added per channel, right after a layer without bias, becomes its bias."""

from __future__ import annotations

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.matmul import Dense


def fold_bias(graph: Graph) -> Graph:
    """``layer(data, weight) + constant`` as ``layer(data, weight, bias)``."""
    addition = {
        layer.output: (node, constant)
        for node in graph.nodes
        for layer, constant in _layer_and_bias(graph, node)
    }
    merged = {node.output for node, _ in addition.values()}
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        if node.output in addition:
            total, constant = addition[node.output]
            flat = graph.constants[constant].reshape(-1)
            bias = builder.constant(builder.unique(f"{node.name}.bias"), flat)
            origins = (*node.origins, *total.origins)
            builder.add(node.op, (*node.inputs, bias), total.output, node.name, origins)
        elif node.output not in merged:
            builder.copy(node, node.inputs)
    return builder.finish(graph.results)


def _layer_and_bias(graph: Graph, node: Node) -> list[tuple[Node, str]]:
    """The layer and the constant that the addition ``node`` joins, if it does."""
    if not isinstance(node.op, BinaryOp) or node.op.function != "add":
        return []
    return [
        (layer, constant)
        for data, constant in (node.inputs, node.inputs[::-1])
        if (layer := graph.producers.get(data)) is not None
        and constant in graph.constants
        and isinstance(layer.op, Conv | Dense)
        and len(layer.inputs) == 2
        and graph.consumers[data] == (node,)
        and data not in graph.result_values
        and _is_per_channel(graph, layer, constant)
    ]


def _is_per_channel(graph: Graph, layer: Node, constant: str) -> bool:
    """Whether the constant has one element per output channel and broadcasts along the others."""
    shape = graph.types[layer.output].shape
    first = isinstance(layer.op, Conv) and layer.op.layout == "NCHW"
    channel = 1 if first else len(shape) - 1
    wanted = tuple(extent if d == channel else 1 for d, extent in enumerate(shape))
    given = graph.types[constant].shape
    return len(given) <= len(shape) and (1,) * (len(shape) - len(given)) + given == wanted
