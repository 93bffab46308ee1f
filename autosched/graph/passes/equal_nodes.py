"""What is computed twice is computed once."""

from __future__ import annotations

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Result
from autosched.graph.ops.base import Op


def merge_equal_nodes(graph: Graph) -> Graph:
    """Nodes of one operator on the same inputs become the first of them.

    Not on the host, where an operator may give other results each time.
    """
    builder = GraphBuilder.from_graph(graph)
    # 0 and -0 are equal, but not as what a pad fills in: the text tells them apart
    first: dict[tuple[Op, str, tuple[str, ...]], str] = {}
    instead: dict[str, str] = {}
    for node in graph.nodes:
        inputs = tuple(instead.get(name, name) for name in node.inputs)
        known = first.setdefault((node.op, repr(node.op), inputs), node.output)
        if known == node.output or node.op.on_host:
            builder.copy(node, inputs)
        else:
            instead[node.output] = known
    if not instead:
        return graph
    return builder.finish([Result(r.name, instead.get(r.value, r.value)) for r in graph.results])
