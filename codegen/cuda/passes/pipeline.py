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

from codegen.cuda.conditions import open_part
from codegen.cuda.device import (
    Binding,
    Cooperative,
    Declare,
    DeviceFunction,
    DeviceNode,
    Fetch,
    For,
    Pipeline,
    WaitProducts,
    points,
)
from codegen.passes.affine import Ranges
from sketch.lang.affine import Interval
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Buffer, LoopVar, Scope
from sketch.population.feasible_gpu import MOST_STAGED_BYTES

_STAGED_TILES: Final = 2
# From more tiles on, one of them may still be read while the next one is.
_LAGGING_TILES: Final = 2

Nodes = tuple[DeviceNode, ...]
Make = Callable[[For], Pipeline | None]


def pipeline_tiles(function: DeviceFunction, asynchronous: bool) -> DeviceFunction:
    """The function with pipelines in the place of the loops over such tiles.

    ``asynchronous``: whether threads need not wait for what they copy into shared memory.
    """
    make = _pipeline if asynchronous else partial(_staged, function.block)
    return replace(function, body=_nodes(function.body, make))


def _nodes(nodes: Nodes, make: Make) -> Nodes:
    return tuple(new for node in nodes for new in _node(node, make))


def _node(node: DeviceNode, make: Make) -> Nodes:
    if not isinstance(node, For):
        return (node,)
    found = make(node)
    if found is None:
        return (replace(node, body=_nodes(node.body, make)),)
    last = found.body[-1]
    if found.lag and isinstance(last, WaitProducts):
        # the products of a tile go on while the next ones are begun
        body = (*found.body[:-1], replace(last, left=found.lag))
        return (replace(found, body=body), last)
    return (replace(found, body=_nodes(found.body, make)),)


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
    if size > MOST_STAGED_BYTES:
        return None
    later = _later(found.fetch, found.bindings, _STAGED_TILES - 1)
    return replace(found, depth=_STAGED_TILES, later=later, staged=True)


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
    walked = tuple(bindings)
    # that many tiles hide the time of a copy and of a product
    lag = 1 if depth > _LAGGING_TILES and isinstance(body[-1], WaitProducts) else 0
    found = Pipeline(walked, depth, buffers, fetch, (), body, lag=lag)
    return replace(found, later=_later(fetch, walked, found.ahead))


def _later(
    fetch: tuple[Cooperative, ...], walked: tuple[Binding, ...], ahead: int
) -> tuple[Cooperative, ...]:
    """The copies of all tiles but the first ``ahead``."""
    first = ahead if len(walked) == 1 else 0  # of several loops the inner ones start again
    ranges = {b.var: (first * b.stride, (b.extent - 1) * b.stride) for b in walked}
    return tuple(
        replace(
            part, body=tuple(_open(node, ranges | _ranges(part.bindings)) for node in part.body)
        )
        for part in fetch
    )


def _ranges(bindings: tuple[Binding, ...]) -> dict[LoopVar, Interval]:
    return {b.var: (0, (b.extent - 1) * b.stride) for b in bindings}


def _open(node: DeviceNode, ranges: Ranges) -> DeviceNode:
    """A copy without the tests that always hold."""
    if not isinstance(node, Fetch) or node.condition is None:
        return node
    return replace(node, condition=open_part(node.condition, ranges))


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
