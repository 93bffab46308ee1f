"""Host nodes of a graph as calls: nodes of equal function and inputs are one call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.host import HostFunction, HostOp

CallKey = tuple[HostFunction, tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class HostCall:
    """One evaluation of a host function.

    Attributes:
        name: unique in the network.
        function: what is evaluated.
        inputs: names of the graph values that it reads (never views).
        outputs: pairs of an index among the function's outputs and the graph value that it is.
        layers: the model's own layers that it computes.
    """

    name: str
    function: HostFunction
    inputs: tuple[str, ...]
    outputs: tuple[tuple[int, str], ...]
    layers: tuple[str, ...]


def call_key(node: Node) -> CallKey:
    """What the node has in common with the others of its call."""
    assert isinstance(node.op, HostOp)
    return node.op.function, node.inputs


def host_calls(graph: Graph, views: Mapping[str, str]) -> dict[CallKey, HostCall]:
    """The host calls of ``graph``; ``views`` gives the value in whose buffer a view lies."""
    members: dict[CallKey, list[Node]] = {}
    for node in graph.nodes:
        if isinstance(node.op, HostOp):
            members.setdefault(call_key(node), []).append(node)
    calls = {}
    for number, (key, nodes) in enumerate(members.items(), 1):
        function, inputs = key
        outputs = [(n.op.index, n.output) for n in nodes if isinstance(n.op, HostOp)]
        calls[key] = HostCall(
            name=f"host_{re.sub(r'[^a-z0-9]+', '_', function.operator.lower())}.{number}",
            function=function,
            inputs=tuple(views.get(name, name) for name in inputs),
            outputs=tuple(outputs),
            layers=tuple(dict.fromkeys(origin for node in nodes for origin in node.origins)),
        )
    return calls
