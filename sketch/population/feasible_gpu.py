"""Feasibility on GPUs: whole warps, shared memory of a block, registers and code of a thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import (
    Allocate,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Num,
    Scope,
    Store,
)
from sketch.nest.walk import index_variables, store_loads, stores, walk
from sketch.population.blocks_gpu import Flags, threads_of, whole_warps
from sketch.population.written_out_gpu import taps_are_tested
from sketch.target.fragments import WARP
from sketch.target.gpu_targets import copies_ahead
from sketch.target.target import Target

# Registers a thread needs besides its accumulators and operands: addresses, loop counters.
_OVERHEAD_REGISTERS = 32
_AHEAD_REGISTERS = 20
_TILE_REGISTERS = 8  # the same where tensor units read tiles by themselves
MOST_STAGED_BYTES = 128
"""What a thread may keep in registers of the tile that is read next."""
_REGISTER_BYTES = 4
_SWIZZLE_REGISTERS = 6
# Bytes: of the widest access of a thread.
_TILE_ALIGNMENT = 16
# More instructions of a term that is tested for its tap: what it reads, it reads alone.
_TESTED_INSTRUCTIONS = 8
_COPIES = (LoopKind.UNROLLED, LoopKind.VTHREAD)


def feasible_on_gpu(nest: LoopNest, target: Target) -> Flags:
    """Which rows of a lowered population fit ``target``; bool ``[P]``, or one for all rows."""
    fits: Flags = True
    for root in nest.roots:
        threads = threads_of((root,))
        fits = fits & (threads <= target.threads_per_block) & whole_warps(root, target)
        if not on_units(root):  # what a warp has of units is bounded by registers alone
            fits = fits & (_vthreads(root) <= target.max_vthreads)
        fits = fits & (shared_bytes_of(root) <= target.most_shared_bytes)
        registers = registers_of(root, target)
        fits = fits & (registers <= target.registers)
        fits = fits & (registers * threads <= target.registers_per_block)
        fits = fits & (instructions_of(root) <= target.instruction_budget)
    return fits


def on_units(root: Node) -> bool:
    """Whether a kernel has products on tensor units."""
    return any(isinstance(node, Loop) and node.kind is LoopKind.TENSOR for node in walk((root,)))


def shared_bytes_of(root: Node) -> Num:
    """Shared memory of a block."""
    total: Num = 0
    for node in walk((root,)):
        if isinstance(node, Allocate) and node.buffer.scope is Scope.SHARED:
            total = total + shared_tile_bytes(node.buffer) * node.buffer.tiles
    return total


def shared_tile_bytes(buffer: Buffer) -> Num:
    """Bytes of one tile of a shared buffer, each of which starts at a multiple of 16."""
    return -(-buffer.size * size_of(buffer.dtype) // _TILE_ALIGNMENT) * _TILE_ALIGNMENT


def registers_of(root: Node, target: Target) -> Num:
    """About the 32-bit registers of a thread: accumulators, and the operands of one step of the
    statement that has most of them.
    """
    private: Num = 0
    for buffer, single in _private((root,)):
        copies = 1 if single else _vthreads(root)
        private = private + buffer.size * size_of(buffer.dtype) * copies
    accumulators = private // _REGISTER_BYTES
    operands: Num = 0
    for store, loops in stores((root,)):
        operands = np.maximum(operands, _operands(store, loops))
    staged = 0 if copies_ahead(target) else _staged_registers(root)
    ahead = _ahead_registers(root)
    if any(_reads_tiles(loops) for _, loops in stores((root,))):
        addresses: Num = _OVERHEAD_REGISTERS + ahead // _AHEAD_REGISTERS * _TILE_REGISTERS
    else:
        addresses = _OVERHEAD_REGISTERS + ahead + _swizzle_registers(root)
    total: Num = accumulators + operands + staged
    return total + addresses


def _staged_registers(root: Node) -> Num:
    """Registers of a thread's part of the tiles that are filled next, if these are few."""
    tiles: Num = 0
    for node in walk((root,)):
        if isinstance(node, Allocate) and node.buffer.scope is Scope.SHARED:
            tiles = tiles + shared_tile_bytes(node.buffer) * np.minimum(node.buffer.tiles - 1, 1)
    part = -(-tiles // np.maximum(threads_of((root,)), 1))
    return (part <= MOST_STAGED_BYTES) * (part // _REGISTER_BYTES)


def _ahead_registers(root: Node) -> Num:
    """Registers of the addresses of tiles that are filled ahead."""
    tiles: Num = 1
    for node in walk((root,)):
        if isinstance(node, Allocate) and node.buffer.scope is Scope.SHARED:
            tiles = np.maximum(tiles, node.buffer.tiles)
    return np.minimum(tiles - 1, 1) * _AHEAD_REGISTERS


def _swizzle_registers(root: Node) -> Num:
    """Registers of the addresses of pieces that change places, of each order that they may have."""
    orders: Num = 0
    for node in walk((root,)):
        if isinstance(node, Allocate) and node.buffer.swizzle is not None:
            orders = orders + node.buffer.swizzle.pieces - 1
    return orders * _SWIZZLE_REGISTERS


def _operands(store: Store, loops: tuple[Loop, ...]) -> Num:
    """Registers of the elements that the copies of a statement read in one step."""
    if store.reducer is None or _reads_tiles(loops):
        return 0
    copies = {n.var: n.extent for n in loops if n.kind in _COPIES and n.axis_kind == "spatial"}
    loads = [load for load in store_loads(store) if load.buffer.scope is not Scope.LOCAL]
    if len(loads) > 1 and all(load.buffer.scope is Scope.SHARED for load in loads):
        # copies that share nothing need their operands one after another
        alone = set.intersection(*map(_variables, loads))
        copies = {var: extent for var, extent in copies.items() if var not in alone}
    terms = {n.var: n.extent for n in loops if n.kind is LoopKind.TENSOR}
    shared = _lanes_of_units(loops) if terms else {}
    total: Num = 0
    for load in loads:
        each = _elements(load, copies | terms)
        # lanes that compute with the same elements have a part of them each
        alike: Num = 1
        for var, extent in shared.items():
            alike = alike * (1 if var in _variables(load) else extent)
        total = total + each * size_of(load.buffer.dtype) // alike
    return total // _REGISTER_BYTES


def _lanes_of_units(loops: tuple[Loop, ...]) -> dict[LoopVar, Num]:
    """The loops of the threads that compute on a unit together: those inside all copies."""
    found: dict[LoopVar, Num] = {}
    for loop in loops:
        if loop.kind is LoopKind.VTHREAD:
            found.clear()
        elif loop.kind is LoopKind.THREAD:
            found[loop.var] = loop.extent
    return found


def _reads_tiles(loops: tuple[Loop, ...]) -> bool:
    """Whether threads of several warps compute on a unit together, which reads tiles by itself."""
    return threads_of_unit((loop.kind, loop.extent) for loop in loops) > WARP


def threads_of_unit(loops: Iterable[tuple[LoopKind, object]]) -> float:
    """The threads that compute on a tensor unit together, from the kinds and extents of the loops
    around a statement; 1 where none does.
    """
    threads, unit = 1.0, False
    for kind, extent in loops:
        unit |= kind is LoopKind.TENSOR
        if kind is LoopKind.VTHREAD:
            threads = 1.0
        elif kind is LoopKind.THREAD and isinstance(extent, int | float):  # no decision
            threads *= extent
    return threads if unit else 1.0


def _elements(load: BufferLoad, copies: dict[LoopVar, Num]) -> Num:
    """How many elements the copies of a load read."""
    count: Num = 1
    for var in _variables(load):
        count = count * copies.get(var, 1)
    return count


def _variables(load: BufferLoad) -> set[LoopVar]:
    return set[LoopVar]().union(*map(index_variables, load.indices))


def instructions_of(root: Node) -> Num:
    """About the instructions of all unrolled statements: a store, its loads and its tests, for each
    copy.
    """
    total: Num = 0
    for store, loops in stores((root,)):
        copies: Num = 1 + len(store.predicates) + len(store_loads(store))
        if taps_are_tested(store, {loop.var for loop in loops if loop.axis_kind == "reduce"}):
            copies = copies + _TESTED_INSTRUCTIONS
        for loop in loops:
            if loop.kind in _COPIES:
                copies = copies * loop.extent
        total = total + copies
    return total


def _vthreads(root: Node) -> Num:
    count: Num = 1
    for node in walk((root,)):
        if isinstance(node, Loop) and node.kind is LoopKind.VTHREAD:
            count = count * node.extent
    return count


def _private(nodes: tuple[Node, ...], single: bool = False) -> Iterator[tuple[Buffer, bool]]:
    """Private buffers, as if none of them lived after another; and whether a thread has one for all
    its virtual threads: to fill its part of a shared tile, or in straight-line code.
    """
    for node in nodes:
        if isinstance(node, Loop):
            yield from _private(node.body, single or node.kind is LoopKind.UNROLLED)
        elif isinstance(node, Allocate) and node.buffer.scope is Scope.SHARED:
            yield from _private(node.body[:1], True)
            yield from _private(node.body[1:], single)
        elif isinstance(node, Allocate):
            yield node.buffer, single
            yield from _private(node.body, single)
