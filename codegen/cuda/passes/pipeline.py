"""Loops over tiles in shared memory that have room for several become pipelines.

    serial k                           pipeline k, 3 tiles deep
      shared tile (3 of them)            copy: tile of k + 2
      cooperative: copy tile     ->      ... += tile[...]
      ... += tile[...]

Loops straight around one another are one pipeline; one that is clipped is not part of it.  Without
asynchronous copies the next tile is in registers while a tile is read, so all of it has to be
copied as it is, and to be small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from codegen.cuda.device import (
    Binding,
    Cooperative,
    Declare,
    DeviceFunction,
    DeviceNode,
    Fetch,
    For,
    Pipeline,
    points,
)
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Buffer, Scope
from sketch.population.feasible_gpu import MOST_STAGED_BYTES

_STAGED_TILES: Final = 2

Nodes = tuple[DeviceNode, ...]
Make = Callable[[For], Pipeline | None]


def pipeline_tiles(function: DeviceFunction, asynchronous: bool) -> DeviceFunction:
    """The function with pipelines in the place of the loops over such tiles.

    ``asynchronous``: whether threads need not wait for what they copy into shared memory.
    """
    make = _pipeline if asynchronous else partial(_staged, function.block)
    return replace(function, body=_nodes(function.body, make))


def _nodes(nodes: Nodes, make: Make) -> Nodes:
    return tuple(_node(node, make) for node in nodes)


def _node(node: DeviceNode, make: Make) -> DeviceNode:
    if not isinstance(node, For):
        return node
    found = make(node)
    if found is None:
        return replace(node, body=_nodes(node.body, make))
    return replace(found, body=_nodes(found.body, make))


def _staged(threads: int, loop: For) -> Pipeline | None:
    found = _pipeline(loop)
    if found is None:
        return None
    size = 0
    for part in found.fetch:
        rounds = -(-points(part.bindings) // threads)
        for copy in part.body:
            if not isinstance(copy, Fetch):
                return None
            size += rounds * copy.count * size_of(copy.source.dtype)
    return replace(found, depth=_STAGED_TILES, staged=True) if size <= MOST_STAGED_BYTES else None


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
    return Pipeline(tuple(bindings), depth, buffers, fetch, body)


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
