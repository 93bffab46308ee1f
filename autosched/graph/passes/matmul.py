"""Products with a constant matrix become dense layers, whatever the rank of the data."""

from __future__ import annotations

from math import prod

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.shape import Reshape


def matmul_to_dense(graph: Graph) -> Graph:
    """``data [..., m, k] @ constant [k, n]`` as a dense layer between two views."""
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        if isinstance(node.op, MatMul) and _has_constant_matrix(graph, node):
            _emit_dense(builder, graph, node)
        else:
            builder.copy(node, node.inputs)
    return builder.finish(graph.results)


def _has_constant_matrix(graph: Graph, node: Node) -> bool:
    weight = node.inputs[1]
    return weight in graph.constants and len(graph.types[weight].shape) == 2


def _emit_dense(builder: GraphBuilder, graph: Graph, node: Node) -> None:
    data, weight = node.inputs
    shape = graph.types[data].shape
    if len(shape) == 2:
        builder.copy(node, node.inputs, Dense())
        return
    rows = (prod(shape[:-1]), shape[-1])
    flat = builder.add(Reshape(rows), (data,), builder.unique(f"{node.output}.rows"), origins=())
    product = builder.add(
        Dense(), (flat, weight), builder.unique(f"{node.output}.dense"), origins=node.origins
    )
    builder.add(Reshape(graph.types[node.output].shape), (product,), node.output, node.name, ())
