"""Loops around a store of a GPU kernel: threads that share points out, copies, tiles in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.analysis import product
from costmodel.extract.quantity import Quantity, to_quantity
from costmodel.extract.statement import STRAIGHT_KINDS, LoopInfo, StoreSite
from sketch.nest.loopnest import Buffer, LoopKind, Scope
from sketch.population.written_out_gpu import loads_of, taps_are_tested, written_out


def is_lane(site: StoreSite, loop: LoopInfo) -> bool:
    """Whether the threads of a block share a loop out."""
    return loop.kind is LoopKind.THREAD and (not cooperates(site) or _inside(site, loop))


def filled_tile(site: StoreSite) -> Buffer | None:
    """The shared buffer that a store fills, or is computed for by a thread that fills it."""
    target = site.store.targets[0]
    return target if target.scope is Scope.SHARED else site.fill


def cooperates(site: StoreSite) -> bool:
    """Whether all threads of a block fill a shared buffer together, whatever loops are around."""
    return filled_tile(site) is not None


def only_copies(site: StoreSite) -> bool:
    """Whether a tile is filled by a thread with elements of another buffer as they are."""
    target = site.store.targets[0]
    return target.scope is Scope.SHARED and not any(b.scope is Scope.LOCAL for b in site.buffers())


def tiles_of(site: StoreSite) -> Quantity:
    """How many tiles there are of what a store helps to fill; 1 where it fills none."""
    tile = filled_tile(site)
    return 1.0 if tile is None else to_quantity(tile.tiles)


def is_ahead(site: StoreSite) -> bool | NDArray[np.bool_]:
    """Whether tiles are filled that are not needed yet, without waiting for what is copied."""
    return only_copies(site) and tiles_of(site) > 1.0


def _fill_depth(site: StoreSite) -> int:
    """How many of the loops are around the tile that a store helps to fill."""
    tile = filled_tile(site)
    return 0 if tile is None else site.allocation_depth(tile)


def _inside(site: StoreSite, loop: LoopInfo) -> bool:
    return any(loop is inner for inner in site.loops[_fill_depth(site) :])


def shared_points(site: StoreSite) -> Quantity:
    """Points that the threads of a block share out."""
    return product(tuple(p for p in site.loops if is_lane(site, p)))


def copies_of(site: StoreSite) -> tuple[LoopInfo, ...]:
    """Loops whose trips are copies of the statement in straight-line code."""
    unrolled = _unrolled(site)
    serial = _term_loops(site)
    inner = [loop.extent for loop in reversed(serial)]
    loads = loads_of(site.store, {loop.var: loop.extent for loop in unrolled})
    tested = taps_are_tested(site.store, site.reduces)
    trips = written_out(product(unrolled), loads, inner, tested)
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
    """Whether another tile is filled before this one, and both are waited for together; or what is
    computed is only a part of a tile.
    """
    if site.store.targets[0].scope is not Scope.SHARED:
        return True
    own, depth = filled_tile(site), _fill_depth(site)
    return any(
        other.scope is Scope.SHARED and other is not own and place == depth
        for other, place in site.allocations
    )


def tile_loops(site: StoreSite) -> tuple[LoopInfo, ...]:
    """The loops over tiles of a shared buffer."""
    return tuple(p for p in site.loops[: _fill_depth(site)] if p.kind is LoopKind.SERIAL)
