"""Names in ONNX nodes: what nodes read from outside, and renaming; nested graphs included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx

_GRAPH = onnx.AttributeProto.GRAPH
_GRAPHS = onnx.AttributeProto.GRAPHS


def nested_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs among a node's attributes (branches, loop bodies)."""
    for attribute in node.attribute:
        if attribute.type == _GRAPH:
            yield attribute.g
        elif attribute.type == _GRAPHS:
            yield from attribute.graphs


def walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """All nodes, those of nested graphs after the node that holds them."""
    for node in nodes:
        yield node
        for graph in nested_graphs(node):
            yield from walk(graph.node)


def read_names(node: onnx.NodeProto) -> list[str]:
    """Values that a node reads: its inputs, then what its nested graphs take from outside."""
    found = dict.fromkeys(name for name in node.input if name)
    for graph in nested_graphs(node):
        own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
        captured = [*free_names(graph.node)]
        defined = {name for inner in graph.node for name in inner.output}
        captured += [info.name for info in graph.output if info.name not in defined]
        found.update(dict.fromkeys(name for name in captured if name not in own))
    return list(found)


def free_names(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """Values that the nodes read and none of them defines before, in order of first use."""
    defined: set[str] = set()
    found: dict[str, None] = {}
    for node in nodes:
        found.update(dict.fromkeys(name for name in read_names(node) if name not in defined))
        defined.update(node.output)
    return list(found)


def renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of ``node`` in which the values in ``names`` are called otherwise.

    Values of nested graphs, too: one that hides another hides it under the new name.
    """
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    for graph in nested_graphs(copy):
        inner = [renamed(member, names) for member in graph.node]
        del graph.node[:]
        graph.node.extend(inner)
        for item in (*graph.input, *graph.initializer, *graph.output):
            item.name = names.get(item.name, item.name)
    return copy


def made_unique(
    nodes: Iterable[onnx.NodeProto], prefix: str, kept: Mapping[str, str]
) -> list[onnx.NodeProto]:
    """Copies of ``nodes`` as part of another graph.

    Values that the nodes define get ``prefix``, except those in ``kept``, which get their name
    there; names of nodes get the prefix, too.
    """
    originals = list(nodes)
    names = {name: f"{prefix}/{name}" for node in originals for name in node.output if name}
    copies = [renamed(node, names | dict(kept)) for node in originals]
    for number, copy in enumerate(copies):
        copy.name = f"{prefix}/{copy.name or f'{copy.op_type}_{number}'}"
    return copies
