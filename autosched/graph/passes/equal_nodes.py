"""What is computed twice is computed once."""

from __future__ import annotations

from typing import Final

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Result
from autosched.graph.ops.base import Op

_SHORT: Final = 1 << 12  # elements: comparing all weights would take longer than it saves


def merge_equal_nodes(graph: Graph) -> Graph:
    """Nodes of one operator on the same inputs become the first of them.

    Not on the host, where an operator may give other results each time.  Short constants of the
    same elements are the same input: layers have each their own.  Nodes that stay keep theirs, so
    that no task depends on which weights happen to be equal.
    """
    builder = GraphBuilder.from_graph(graph)
    # 0 and -0 are equal, but not as what a pad fills in: the text tells them apart
    first: dict[tuple[Op, str, tuple[str, ...]], str] = {}
    alike, instead = _equal_constants(graph), dict[str, str]()
    for node in graph.nodes:
        inputs = tuple(instead.get(name, name) for name in node.inputs)
        compared = tuple(alike.get(name, name) for name in inputs)
        known = first.setdefault((node.op, repr(node.op), compared), node.output)
        if known == node.output or node.op.on_host:
            builder.copy(node, inputs)
        else:
            instead[node.output] = known
    if not instead:
        return graph
    return builder.finish([Result(r.name, instead.get(r.value, r.value)) for r in graph.results])


def _equal_constants(graph: Graph) -> dict[str, str]:
    """Short constants that nodes read and that an earlier one equals bit by bit, with that one."""
    first: dict[tuple[str, tuple[int, ...], bytes], str] = {}
    alike: dict[str, str] = {}
    for name, array in graph.constants.items():
        if array.size <= _SHORT and name in graph.consumers:
            known = first.setdefault((str(array.dtype), array.shape, array.tobytes()), name)
            if known != name:
                alike[name] = known
    return alike
