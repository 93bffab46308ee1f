"""Loops around a store of a GPU kernel: threads that share points out, copies, tiles in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.analysis import product
from costmodel.extract.quantity import Quantity, to_quantity
from costmodel.extract.statement import STRAIGHT_KINDS, LoopInfo, StoreSite
from sketch.nest.loopnest import LoopKind, Scope
from sketch.population.written_out_gpu import written_out


def is_lane(site: StoreSite, loop: LoopInfo) -> bool:
    """Whether the threads of a block share a loop out."""
    return loop.kind is LoopKind.THREAD and (not cooperates(site) or _inside(site, loop))


def cooperates(site: StoreSite) -> bool:
    """Whether all threads of a block fill a shared buffer together, whatever loops are around."""
    return site.store.targets[0].scope is Scope.SHARED


def is_ahead(site: StoreSite) -> bool | NDArray[np.bool_]:
    """Whether tiles are filled that are not needed yet."""
    return cooperates(site) and to_quantity(site.store.targets[0].tiles) > 1.0


def _inside(site: StoreSite, loop: LoopInfo) -> bool:
    depth = site.allocation_depth(site.store.targets[0])
    return any(loop is inner for inner in site.loops[depth:])


def shared_points(site: StoreSite) -> Quantity:
    """Points that the threads of a block share out."""
    return product(tuple(p for p in site.loops if is_lane(site, p)))


def copies_of(site: StoreSite) -> tuple[LoopInfo, ...]:
    """Loops whose trips are copies of the statement in straight-line code."""
    unrolled = _unrolled(site)
    serial = _term_loops(site)
    trips = written_out(product(unrolled), [loop.extent for loop in reversed(serial)])
    pairs = zip(serial, reversed(trips), strict=True)
    written = (replace(loop, extent=count) for loop, count in pairs)
    return (*written, *unrolled)


def _unrolled(site: StoreSite) -> tuple[LoopInfo, ...]:
    chosen = (p for p in site.loops if p.kind in STRAIGHT_KINDS)
    unrolled = (p for p in chosen if p.kind is not LoopKind.THREAD)
    # a tile is filled once for all virtual threads
    return tuple(p for p in unrolled if not cooperates(site) or _inside(site, p))


def turns_of(site: StoreSite) -> Quantity:
    """Times that a thread starts over in a tile, and waits for its first operands again."""
    serial = _term_loops(site)
    if not serial:
        return 0.0
    written = product(copies_of(site)) / product(_unrolled(site))
    outside = site.loops[: site.loops.index(serial[0])]
    tiles = product(tuple(loop for loop in outside if loop.kind is LoopKind.SERIAL))
    return tiles * (product(serial) / written - 1.0)


def _term_loops(site: StoreSite) -> tuple[LoopInfo, ...]:
    """The serial loops over what a shared tile holds."""
    tiles = [depth for buffer, depth in site.allocations if buffer.scope is Scope.SHARED]
    if cooperates(site) or not tiles:
        return ()
    return tuple(loop for loop in site.loops[max(tiles) :] if loop.kind is LoopKind.SERIAL)


def fills_with_others(site: StoreSite) -> bool:
    """Whether another tile is filled before this one, and both are waited for together."""
    own = site.store.targets[0]
    depth = site.allocation_depth(own)
    return any(
        other.scope is Scope.SHARED and other is not own and place == depth
        for other, place in site.allocations
    )


def tile_loops(site: StoreSite) -> tuple[LoopInfo, ...]:
    """The loops over tiles of a shared buffer."""
    depth = site.allocation_depth(site.store.targets[0])
    return tuple(p for p in site.loops[:depth] if p.kind is LoopKind.SERIAL)
