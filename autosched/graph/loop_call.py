"""Loops of a graph as calls: nodes of equal function and inputs are one loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autosched.graph.ir import Node
from autosched.graph.ops.scan import Scan, ScanFunction

if TYPE_CHECKING:
    from autosched.graph.extract import Extraction

LoopKey = tuple[ScanFunction, tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class LoopCall:
    """One execution of all iterations of a loop.

    Attributes:
        name: unique in the network.
        function: how iterations are connected.
        body: one iteration as kernel calls.  Each result of the body is computed by a kernel for
            it alone, or is the next value of several states.
        inputs: names of the graph values that it reads (never views), in the order of the body's.
        outputs: the graph value that each wanted result is, by the result's index.
        layers: the model's own layers that it computes.
    """

    name: str
    function: ScanFunction
    body: Extraction
    inputs: tuple[str, ...]
    outputs: Mapping[int, str]
    layers: tuple[str, ...]


def loop_key(node: Node) -> LoopKey:
    """What the node has in common with the others of its loop."""
    assert isinstance(node.op, Scan)
    return node.op.function, node.inputs


def loop_outputs(nodes: tuple[Node, ...]) -> dict[LoopKey, dict[int, str]]:
    """The graph value that each result of each loop is, by the result's index."""
    found: dict[LoopKey, dict[int, str]] = {}
    for node in nodes:
        if isinstance(node.op, Scan):
            found.setdefault(loop_key(node), {})[node.op.index] = node.output
    return found
