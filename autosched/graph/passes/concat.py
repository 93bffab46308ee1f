"""Concatenations without a kernel: each operand is computed where it lies in the whole.

* a concatenation that only another one along the same axis reads is taken apart into its operands;
* an operand that cannot be computed in place (an input, a constant, a view, a result of the host
  or of a loop, a value that others read too) gets a copy that is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Shape
from autosched.graph.ops.scan import Scan
from autosched.graph.ops.shape import Concat, Copy, Reshape
from sketch.nest.loopnest import row_major


@dataclass(frozen=True, slots=True)
class ConcatPart:
    """Where the operand of a concatenation lies.

    Attributes:
        whole: the concatenated value.
        offset: elements from the whole's first to the part's first.
        strides: elements from one to the next along each dimension.
    """

    whole: str
    offset: int
    strides: Shape


def parts(graph: Graph) -> dict[str, ConcatPart]:
    """The part that each operand of a concatenation is; see ``split_concats``."""
    found: dict[str, ConcatPart] = {}
    for node in graph.nodes:
        if isinstance(node.op, Concat):
            strides = tuple(int(stride) for stride in row_major(graph.types[node.output].shape))
            start = 0
            for name in node.inputs:
                found[name] = ConcatPart(node.output, start * strides[node.op.axis], strides)
                start += graph.types[name].shape[node.op.axis]
    return found


def split_concats(graph: Graph, copied: frozenset[str] = frozenset()) -> Graph:
    """``graph`` with every operand of a concatenation computed for it alone, by a kernel.

    Values in ``copied`` get a copy in any case.
    """
    builder = GraphBuilder.from_graph(graph)
    dissolved = {node.output for node in graph.nodes if _dissolves(graph, node)}
    for node in graph.nodes:
        if node.output in dissolved:
            continue
        if not isinstance(node.op, Concat):
            builder.copy(node, node.inputs)
            continue
        operands = list(_operands(graph, node, dissolved))
        inputs = [
            name
            if name not in copied and operands.count(name) == 1 and _in_place(graph, name)
            else builder.add(Copy(), (name,), origins=node.origins)
            for name in operands
        ]
        builder.copy(node, inputs)
    return builder.finish(graph.results)


def _dissolves(graph: Graph, node: Node) -> bool:
    """Whether ``node`` is a concatenation that only one along the same axis reads, once."""
    if not isinstance(node.op, Concat) or node.output in graph.result_values:
        return False
    readers = graph.consumers.get(node.output, ())
    return (
        len(readers) == 1 and readers[0].op == node.op and readers[0].inputs.count(node.output) == 1
    )


def _operands(graph: Graph, node: Node, dissolved: set[str]) -> Iterator[str]:
    for name in node.inputs:
        if name in dissolved:
            yield from _operands(graph, graph.producers[name], dissolved)
        else:
            yield name


def _in_place(graph: Graph, name: str) -> bool:
    """Whether a kernel computes the value, for one reader only."""
    producer = graph.producers.get(name)
    return (
        producer is not None
        and not isinstance(producer.op, Reshape | Concat | Scan)
        and not producer.op.on_host
        and name not in graph.result_values
        and len(graph.consumers[name]) == 1
    )
