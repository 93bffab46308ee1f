"""Products read and write their operands in any order of dimensions, without transposes."""

from __future__ import annotations

from collections.abc import Container

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.matmul import MatMul, matmul_labels
from autosched.graph.ops.shape import Transpose


def fold_transposes(graph: Graph) -> Graph:
    """Products with a transpose before or after them, as in attention, become einsums.

    Transposes that others read stay for those.  Products of two plain matrices are left alone where
    one is a constant: a transposed weight is folded into it.
    """
    builder = GraphBuilder.from_graph(graph)
    folded: set[str] = set()  # what products compute now, transposed or not
    for node in graph.nodes:
        product = _labels(graph, node)
        if product is not None and node.output not in folded:
            folded.add(_emit(builder, graph, node, product, folded))
        elif node.output not in folded:
            builder.copy(node, node.inputs)
    return builder.finish(graph.results)


def _emit(
    builder: GraphBuilder, graph: Graph, node: Node, product: Einsum, folded: Container[str]
) -> str:
    """Add ``node`` with the transposes around it; returns the value that it computes then."""
    before = [None if name in folded else _transpose_before(graph, name) for name in node.inputs]
    after = _transpose_after(graph, node)
    transposes = [t for t in (*before, after) if t is not None]
    if not transposes:
        return builder.copy(node, node.inputs)
    op = Einsum(
        tuple(map(_source_labels, product.labels, before)),
        product.output if after is None else _permuted(product.output, after),
        product.dtype,
    )
    inputs = [
        name if transpose is None else transpose.inputs[0]
        for name, transpose in zip(node.inputs, before, strict=True)
    ]
    output = node.output if after is None else after.output
    origins = (*(o for t in transposes for o in t.origins), *node.origins)
    return builder.add(op, inputs, output, node.name, origins)


def _labels(graph: Graph, node: Node) -> Einsum | None:
    """The product that ``node`` computes, with labelled dimensions; None for other operators."""
    if isinstance(node.op, Einsum):
        return node.op
    if not isinstance(node.op, MatMul):
        return None
    ranks = [len(graph.types[name].shape) for name in node.inputs]
    if max(ranks) == 2 and any(_is_constant(graph, name) for name in node.inputs):
        return None
    return Einsum(*matmul_labels(*ranks), node.op.dtype)


def _is_constant(graph: Graph, name: str) -> bool:
    transpose = _transpose_before(graph, name)
    return (name if transpose is None else transpose.inputs[0]) in graph.constants


def _transpose_before(graph: Graph, name: str) -> Node | None:
    node = graph.producers.get(name)
    return node if node is not None and isinstance(node.op, Transpose) else None


def _transpose_after(graph: Graph, node: Node) -> Node | None:
    readers = graph.consumers.get(node.output, ())
    if len(readers) != 1 or node.output in graph.result_values:
        return None
    return readers[0] if isinstance(readers[0].op, Transpose) else None


def _source_labels(labels: str, transpose: Node | None) -> str:
    """Labels of what is transposed before it is read under ``labels``."""
    if transpose is None:
        return labels
    assert isinstance(transpose.op, Transpose)
    source = dict(zip(transpose.op.permutation, labels, strict=True))
    return "".join(source[dimension] for dimension in range(len(labels)))


def _permuted(labels: str, transpose: Node) -> str:
    """Labels of what a transpose makes of ``labels``."""
    assert isinstance(transpose.op, Transpose)
    return "".join(labels[dimension] for dimension in transpose.op.permutation)
