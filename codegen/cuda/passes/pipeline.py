"""Loops over tiles in shared memory that have room for several become pipelines.

    serial k                           pipeline k, 3 tiles deep
      shared tile (3 of them)            copy: tile of k + 2
      cooperative: copy tile     ->      ... += tile[...]
      ... += tile[...]

Loops straight around one another are one pipeline; one that is clipped is not part of it.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.cuda.device import (
    Binding,
    Cooperative,
    Declare,
    DeviceFunction,
    DeviceNode,
    For,
    Pipeline,
    points,
)
from sketch.nest.loopnest import Buffer, Scope

Nodes = tuple[DeviceNode, ...]


def pipeline_tiles(function: DeviceFunction) -> DeviceFunction:
    """The function with pipelines in the place of the loops over such tiles."""
    return replace(function, body=tuple(map(_node, function.body)))


def _node(node: DeviceNode) -> DeviceNode:
    if not isinstance(node, For):
        return node
    return _pipeline(node) or replace(node, body=tuple(map(_node, node.body)))


def _pipeline(loop: For) -> Pipeline | None:
    bindings: list[Binding] = []
    nodes: Nodes = (loop,)
    while len(nodes) == 1 and isinstance(nodes[0], For) and not nodes[0].clip:
        bindings.append(Binding(nodes[0].var, nodes[0].extent, nodes[0].stride))
        nodes = nodes[0].body
    buffers, fetch, body = _parts(nodes)
    depth = min((int(buffer.tiles) for buffer in buffers), default=1)
    depth = min(depth, points(tuple(bindings)))
    if depth < 2 or not fetch or not body:
        return None
    return Pipeline(tuple(bindings), depth, buffers, fetch, tuple(map(_node, body)))


def _parts(nodes: Nodes) -> tuple[tuple[Buffer, ...], tuple[Cooperative, ...], Nodes]:
    """The shared buffers that nodes start with, what fills them, and the rest."""
    buffers, fetch, place = [], [], 0
    for place, node in enumerate(nodes):
        if isinstance(node, Declare) and node.buffer.scope is Scope.SHARED:
            buffers.append(node.buffer)
        elif isinstance(node, Cooperative):
            fetch.append(node)
        else:
            return tuple(buffers), tuple(fetch), nodes[place:]
    return tuple(buffers), tuple(fetch), ()
