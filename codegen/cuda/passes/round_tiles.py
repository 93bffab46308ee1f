"""Tiles that tensor units read by themselves as tf32 are rounded in shared memory.

    copy 4 elements of tile                 copy 4 elements of tile
    barrier                                 round them, in place
    unit(tile, ...)                ->       barrier
                                            unit(tile, ...)

Such a unit ignores the bits behind those of tf32, as if every number were rounded toward zero.  A
thread rounds what it has copied itself, as soon as that is there, so no other waits for it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from codegen.cuda.device import (
    Cooperative,
    DeviceFunction,
    DeviceNode,
    Fetch,
    For,
    MultiplyTiles,
    Pipeline,
    RoundPiece,
    walk_device,
)
from sketch.nest.loopnest import Buffer, Store

Nodes = tuple[DeviceNode, ...]
Tiles = Collection[Buffer]


def round_tiles(function: DeviceFunction) -> DeviceFunction:
    """The function with tiles as its units read them."""
    products = (node for node in walk_device(function.body) if isinstance(node, MultiplyTiles))
    rounding = [node for node in products if node.unit.rounds]
    tiles = frozenset(load.buffer for node in rounding for load in (node.lhs, node.rhs))
    return replace(function, body=_nodes(function.body, tiles)) if tiles else function


def _nodes(nodes: Nodes, tiles: Tiles) -> Nodes:
    return tuple(_node(node, tiles) for node in nodes)


def _node(node: DeviceNode, tiles: Tiles) -> DeviceNode:
    match node:
        case For():
            return replace(node, body=_nodes(node.body, tiles))
        case Cooperative():
            return replace(node, body=(*node.body, *_rounded(node, tiles)))
        case Pipeline():
            each = ((part, _rounded(part, tiles)) for part in node.fetch)
            return replace(
                node, arrived=tuple(replace(part, body=pieces) for part, pieces in each if pieces)
            )
    return node


def _rounded(node: Cooperative, tiles: Tiles) -> Nodes:
    """What rounds that which a point has put into tiles."""
    found: list[DeviceNode] = []
    for each in node.body:
        store, count = (each.store, each.count) if isinstance(each, Fetch) else (each, 1)
        if isinstance(store, Store) and store.targets[0] in tiles:
            found.append(RoundPiece(store.targets[0], store.indices, count))
    return tuple(found)
