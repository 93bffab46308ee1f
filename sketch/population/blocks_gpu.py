"""Blocks and threads of a GPU kernel: how many there are, and how many its work allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

from sketch.lang.expr import Axis
from sketch.nest.loopnest import (
    Allocate,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Num,
    Scope,
)
from sketch.target.target import Target

Flags = bool | NDArray[np.bool_]

# Warps of a block from which on a processor hides latencies by other warps.
_WARPS_OF_A_BLOCK = 4
# Points that are computed for each one that is needed: tiles that are longer than an axis.
_MOST_PADDING = 2


def fills_gpu(nest: LoopNest, target: Target) -> Flags:
    """Which rows have blocks of 4 whole warps at least and a block for every processor, as far as
    a kernel's points allow it, and little padding; bool ``[P]``, or one for all rows.
    """
    fits: Flags = True
    for root in nest.roots:
        threads, blocks = threads_of((root,)), blocks_of(root)
        points = _reach((root,))
        wanted = min(_WARPS_OF_A_BLOCK * target.warp_size, _whole_warps(points, target))
        least = min(target.threads, _points(_block_vars(root)))
        if points < wanted * target.threads:  # powers of two that divide it reach half of it
            least = min(least, max(1, points // (2 * wanted)))
        fits = fits & (threads >= wanted) & (threads % min(target.warp_size, wanted) == 0)
        fits = fits & (blocks >= least)
        fits = fits & (threads * blocks <= max(_MOST_PADDING * points, wanted))
    return fits


def whole_warps(nest_root: Node, target: Target) -> Flags:
    """Whether a block has whole warps, or all the threads that the points of its axes allow."""
    threads = threads_of((nest_root,))
    counts = _counts(_thread_vars((nest_root,)))
    most = prod(1 << count.bit_length() - 1 for count in counts.values())
    warp = target.warp_size
    return (threads % warp == 0) if most >= warp else (threads >= most)


def _whole_warps(points: int, target: Target) -> int:
    """The most threads in whole warps that points can use, or their number if it is less."""
    return points // target.warp_size * target.warp_size or points


def threads_of(nodes: tuple[Node, ...]) -> Num:
    """Threads of a block; nests one after another in it are run by the same threads."""
    most: Num = 1
    for node in nodes:
        match node:
            case Loop():
                inside = threads_of(node.body)
                count = inside * node.extent if node.kind is LoopKind.THREAD else inside
            case Allocate():
                count = threads_of(_own_part(node))
            case _:
                continue
        most = np.maximum(most, count)
    return most


def blocks_of(root: Node) -> Num:
    """Blocks of a launch."""
    blocks: Num = 1
    while isinstance(root, Loop) and root.kind is LoopKind.BLOCK:
        blocks, root = blocks * root.extent, root.body[0]
    return blocks


def _own_part(node: Allocate) -> tuple[Node, ...]:
    """What the threads of a block compute each by itself: the first nest inside an allocation of
    shared memory fills it with whatever threads there are.
    """
    return node.body[1:] if node.buffer.scope is Scope.SHARED else node.body


def _thread_vars(nodes: tuple[Node, ...]) -> list[LoopVar]:
    """The variables of a block's threads; of lanes, those of the first nest."""
    found: list[LoopVar] = []
    for node in nodes:
        if isinstance(node, Allocate):
            inside = _thread_vars(_own_part(node))
        elif isinstance(node, Loop):
            inside = _thread_vars(node.body)
            if node.kind is LoopKind.THREAD and node.var.axis is not None:
                inside = [node.var, *inside]
        else:
            continue
        found = max(found, inside, key=_points)
    return found


def _reach(nodes: tuple[Node, ...]) -> int:
    """Points that threads could share out: of the axes of blocks and of threads."""
    return _points([*_block_vars(nodes[0]), *_thread_vars(nodes)])


def _points(variables: Iterable[LoopVar]) -> int:
    return prod(_counts(variables).values())


def _counts(variables: Iterable[LoopVar]) -> dict[Axis, int]:
    """What there is of each axis to share out: its elements, or whole tiles of them."""
    return {var.axis: -(-var.axis.extent // var.unit) for var in variables if var.axis is not None}


def _block_vars(root: Node) -> Iterator[LoopVar]:
    while isinstance(root, Loop) and root.kind is LoopKind.BLOCK:
        if root.var.axis is not None:
            yield root.var
        root = root.body[0]
