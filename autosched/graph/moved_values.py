"""What values are moved from: elements that only change their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from autosched.graph.ir import Graph
from autosched.graph.ops.base import Op


def with_sources(graph: Graph, values: Iterable[str], moves: Callable[[Op], bool]) -> set[str]:
    """Values, and what they are moved from.

    Args:
        graph: that has them.
        values: names.
        moves: whether the elements of an operator's result are some of its operands'.
    """
    found, pending = set[str](), list(values)
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        node = graph.producers.get(name)
        if node is not None and moves(node.op):
            pending.extend(node.inputs)
    return found
