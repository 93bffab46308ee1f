"""Concatenations without a kernel: each operand is computed where it lies in the whole.

* a concatenation that another one along the same axis reads is taken apart into its operands; if
  others read it too, they read it there;
* an operand that cannot be computed in place (an input, a constant, a result of the host or of a
  loop, a view of one of these, a value whose other readers want it in one piece) gets a copy that
  is.
"""

from __future__ import annotations

from collections.abc import Iterator

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.scan import Scan
from autosched.graph.ops.shape import Concat, Copy
from autosched.graph.parts import computed_source, embedded, operand_strides, strided_readers


def split_concats(graph: Graph, copied: frozenset[str] = frozenset()) -> Graph:
    """``graph`` with every operand of a concatenation computed by a kernel, at one place.

    Values in ``copied`` get a copy in any case.
    """
    return _own_operands(_taken_apart(graph), copied)


def _taken_apart(graph: Graph) -> Graph:
    """``graph`` with the operands of the concatenations that concatenations join."""
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        if not isinstance(node.op, Concat):
            builder.copy(node, node.inputs)
        elif not _only_joined(graph, node):
            builder.copy(node, tuple(_operands(graph, node)))
    return builder.finish(graph.results)


def _operands(graph: Graph, node: Node) -> Iterator[str]:
    """Of a concatenation, and of those that it joins, however many."""
    pending = [(name, node) for name in reversed(node.inputs)]
    while pending:
        name, outer = pending.pop()
        inner = graph.producers.get(name)
        if inner is not None and inner.op == outer.op and _may_lie_inside(graph, inner, outer):
            pending += [(operand, inner) for operand in reversed(inner.inputs)]
        else:
            yield name


def _only_joined(graph: Graph, node: Node) -> bool:
    """Whether nobody reads a concatenation but those that take it apart."""
    readers = graph.consumers.get(node.output, ())
    return node.output not in graph.result_values and all(
        reader.op == node.op and _may_lie_inside(graph, node, reader) for reader in readers
    )


def _may_lie_inside(graph: Graph, inner: Node, outer: Node) -> bool:
    once = outer.inputs.count(inner.output) == 1
    only = graph.consumers[inner.output] == (outer,) and inner.output not in graph.result_values
    # The final strides may be larger.  Those along the joined axis and inside of it stay the same,
    # the others stay in proportion, so they allow the same views.
    strides = operand_strides(graph, outer)
    return once and (only or strided_readers(graph, inner.output, strides))


def _own_operands(graph: Graph, copied: frozenset[str]) -> Graph:
    """``graph`` with copies of the operands that cannot be computed in place."""
    builder = GraphBuilder.from_graph(graph)
    inside = embedded(graph)
    nodes = [node for node in graph.nodes if isinstance(node.op, Concat)]
    homes = [node for node in nodes if node.output not in inside]
    computed: dict[str, tuple[str, str]] = {}  # the home of each value, and the operand that it is
    in_place: dict[str, str] = {}
    for home in sorted(homes, key=lambda node: -len(node.inputs)):
        for name in home.inputs:
            source = _in_place(graph, home, name)
            if source is None or source in copied:
                continue
            if computed.setdefault(source, (home.output, name)) == (home.output, name):
                in_place[name] = home.output
    copies: dict[tuple[str, int], str] = {}
    for node in graph.nodes:
        if not isinstance(node.op, Concat):
            builder.copy(node, node.inputs)
            continue
        whole, first = inside.get(node.output, (node.output, 0))
        inputs = []
        for place, name in enumerate(node.inputs, first):
            if in_place.get(name) == whole:
                inputs.append(name)
                continue
            if (whole, place) not in copies:
                copies[whole, place] = builder.add(Copy(), (name,), origins=node.origins)
            inputs.append(copies[whole, place])
        builder.copy(node, inputs)
    return builder.finish(graph.results)


def _in_place(graph: Graph, home: Node, name: str) -> str | None:
    """What a kernel computes within ``home``: the value, or what it is a view of; None: nothing.

    All who read it can take it from there.
    """
    found = computed_source(graph, name, operand_strides(graph, home))
    if found is None or home.inputs.count(name) > 1:
        return None
    source, strides = found
    producer = graph.producers.get(source)
    if producer is None or isinstance(producer.op, Concat | Scan) or producer.op.on_host:
        return None
    return source if strided_readers(graph, source, strides) else None
