"""Normalisation over all of a sample reads it in the shape, and the order, that it has.

    reshape(normalize(reshape(x [n, c, s], (n, 1, c * s)), axes 2), (n, c, s))
        ->  normalize(x, axes 1 and 2)

as group normalisation of one group is exported.  The views would have the elements in the order of
the model; what is stored channels last would be transposed before and after.
"""

from __future__ import annotations

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.norm import Normalize
from autosched.graph.ops.shape import Reshape


def normalize_in_place(graph: Graph) -> Graph:
    """``graph`` with the rewrite above; views that nothing reads any more stay."""
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        source = _normalized(graph, node)
        if source is None:
            builder.copy(node, node.inputs)
            continue
        inner = graph.producers[node.inputs[0]]
        assert isinstance(inner.op, Normalize)
        rank = len(graph.types[source].shape)
        op = Normalize(tuple(range(1, rank)), inner.op.epsilon, inner.op.centered)
        builder.add(op, (source,), node.output, node.name, inner.origins)
    return builder.finish(graph.results)


def _normalized(graph: Graph, node: Node) -> str | None:
    """The value whose samples a view shows normalised, in their own shape."""
    inner = graph.producers.get(node.inputs[0]) if isinstance(node.op, Reshape) else None
    if inner is None or not isinstance(inner.op, Normalize):
        return None
    view = graph.producers.get(inner.inputs[0])
    if view is None or not isinstance(view.op, Reshape):
        return None
    before, inside = graph.types[view.inputs[0]].shape, graph.types[inner.output].shape
    kept = [n for d, n in enumerate(inside) if d not in inner.op.axes]
    whole = inside[0] == before[0] and 0 not in inner.op.axes and all(n == 1 for n in kept[1:])
    same = graph.types[node.output].shape == before and len(before) > 1
    return view.inputs[0] if whole and same else None
