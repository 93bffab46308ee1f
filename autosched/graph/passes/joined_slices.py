"""Neighbouring slices that are joined again are one slice, or what they were cut from.

    Concat(x[:, :8], x[:, 8:16], y)    ->    Concat(x[:, :16], y)

Blocks of detectors join both halves of a value with what they make of one of them: what computes
the value can write it where it is joined, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Concat


def join_slices(graph: Graph) -> Graph:
    """``graph`` with the rewrite above; slices that nothing reads any more stay."""
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        if not isinstance(node.op, Concat):
            builder.copy(node, node.inputs)
            continue
        runs = _runs(graph, node.inputs, node.op.axis)
        builder.copy(node, [_emit(builder, graph, run) for run in runs])
    return builder.finish(graph.results)


def _runs(graph: Graph, names: Sequence[str], axis: int) -> list[list[Node | str]]:
    """Operands in order; slices that follow each other are one run."""
    runs: list[list[Node | str]] = []
    for name in names:
        node = graph.producers.get(name)
        found = node if node is not None and isinstance(node.op, Slice) else name
        last = runs[-1][-1] if runs else None
        if isinstance(last, Node) and isinstance(found, Node) and _follows(last, found, axis):
            runs[-1].append(found)
        else:
            runs.append([found])
    return runs


def _follows(first: Node, second: Node, axis: int) -> bool:
    """Whether a slice begins where another one of the same value ends."""
    a, b = first.op, second.op
    assert isinstance(a, Slice) and isinstance(b, Slice)
    around = [
        (a.start[d], a.stop[d], a.step[d]) == (b.start[d], b.stop[d], b.step[d])
        for d in range(len(a.start))
        if d != axis
    ]
    meet = a.stop[axis] == b.start[axis] and a.step[axis] == b.step[axis] == 1
    return first.inputs == second.inputs and meet and all(around)


def _emit(builder: GraphBuilder, graph: Graph, run: Sequence[Node | str]) -> str:
    first, last = run[0], run[-1]
    if isinstance(first, str) or isinstance(last, str):
        return str(first)
    if len(run) == 1:
        return first.output
    assert isinstance(first.op, Slice) and isinstance(last.op, Slice)
    whole = Slice(first.op.start, last.op.stop, first.op.step)
    source = first.inputs[0]
    shape = graph.types[source].shape
    if whole == Slice((0,) * len(shape), shape, (1,) * len(shape)):
        return source
    return builder.add(whole, (source,), origins=first.origins)
