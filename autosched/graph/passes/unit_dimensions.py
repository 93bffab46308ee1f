"""Products read their operands without dimensions of one element that a view adds.

``einsum("ABik,AkBj->AiBj", reshape(x [8, 128, 128], (1, 8, 128, 128)), v)`` becomes
``einsum("Bik,AkBj->AiBj", x, v)``: a view between weights and their product would keep the two out
of one kernel.
"""

from __future__ import annotations

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Shape
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.shape import Reshape


def drop_unit_dimensions(graph: Graph) -> Graph:
    """``graph`` with the rewrite above; views that nothing reads any more stay."""
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        if isinstance(node.op, Einsum) and len(node.inputs) > 1:
            _emit(builder, graph, node, node.op)
        else:
            builder.copy(node, node.inputs)
    return builder.finish(graph.results)


def _emit(builder: GraphBuilder, graph: Graph, node: Node, op: Einsum) -> None:
    inputs, labels = list(node.inputs), list(op.labels)
    for place, name in enumerate(node.inputs):
        source = graph.producers.get(name)
        if source is None or not isinstance(source.op, Reshape):
            continue
        before = graph.types[source.inputs[0]].shape
        others = "".join(own for other, own in enumerate(labels) if other != place)
        kept = _kept(before, graph.types[name].shape)
        if kept is None:
            continue
        left = "".join(labels[place][d] for d in kept)
        if not left or any(x in op.output and x not in others + left for x in labels[place]):
            continue
        inputs[place], labels[place] = source.inputs[0], left
    builder.copy(node, inputs, Einsum(tuple(labels), op.output, op.dtype))


def _kept(before: Shape, after: Shape) -> list[int] | None:
    """The dimensions after a reshape that were there before; None if it does more than add ones."""
    kept: list[int] = []
    for dimension, extent in enumerate(after):
        if len(kept) < len(before) and before[len(kept)] == extent:
            kept.append(dimension)
        elif extent != 1:
            return None
    return kept if len(kept) == len(before) else None
