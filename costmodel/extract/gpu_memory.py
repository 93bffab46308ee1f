"""Bytes that kernels of a GPU read from its memory and write to it.

Blocks that run at a time go through their operands side by side, so that L2 hands on to all of them
what one has read.  What later blocks need again has left L2 by then, where it does not hold all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from costmodel.extract.access import Access, footprint
from costmodel.extract.analysis import Analysis
from costmodel.extract.gpu_kernel import KernelShape
from costmodel.extract.gpu_lanes import SECTOR_BYTES
from costmodel.extract.quantity import Quantity, larger, smaller, where
from costmodel.extract.statement import PARALLEL_KINDS, LoopInfo
from sketch.nest.loopnest import Scope

# Of L2, what stays of a tensor beside those that pass by.
_SHARE_THAT_STAYS: Final = 0.5


def memory_bytes(analysis: Analysis, kernel: KernelShape) -> tuple[Quantity, Quantity]:
    """(bytes that a statement touches, once each; what is read again, as the blocks before did not
    run at the same time).

    None where L2 holds them all, and of what its block has read before, none where L2 holds that of
    all blocks under way.  What is read again counts where the order of blocks is a decision.
    """
    target = analysis.target
    room = float(target.l2_bytes)
    before = kernel.read_before[analysis.statement.stage]
    total: Quantity = 0.0
    again: Quantity = 0.0
    for access, elements in zip(analysis.accesses, analysis.element_levels, strict=True):
        if access.buffer.scope in (Scope.LOCAL, Scope.SHARED):
            continue
        found = elements[0] * access.element_bytes
        more = _read_again(access, found, kernel, analysis)
        if access.buffer in before:
            under_way = smaller(kernel.resident, kernel.busiest) * float(target.threads)
            left = block_bytes(access) * under_way <= room
            found, more = where(left, 0.0, found), where(left, 0.0, more)
        total, again = total + found, again + more
    return where(total > room, total, 0.0), where(total > room, again, 0.0)


def block_bytes(access: Access) -> Quantity:
    """Bytes of global memory that a block touches, in whole sectors, once each."""
    own = tuple(p for p in access.site.loops if p.kind not in PARALLEL_KINDS)
    return footprint(access, own, SECTOR_BYTES).lines[0] * SECTOR_BYTES


def _read_again(
    access: Access, once: Quantity, kernel: KernelShape, analysis: Analysis
) -> Quantity:
    """Bytes beyond those that are read once."""
    site, target = access.site, analysis.target
    blocks = tuple(p for p in site.loops if p.kind in PARALLEL_KINDS)
    ordered = any(not isinstance(p.together, float) or p.together > 1.0 for p in blocks)
    if not ordered or access.buffer in site.store.targets:
        return 0.0
    at_a_time = smaller(kernel.resident * float(target.threads), kernel.blocks)
    own = tuple(p for p in site.loops if p.kind not in PARALLEL_KINDS)
    loops = (*running_together(blocks, at_a_time), *own)
    wave = footprint(access, loops, SECTOR_BYTES).lines[0] * SECTOR_BYTES
    more = larger(kernel.blocks / at_a_time * wave - once, 0.0)
    return where(once <= _SHARE_THAT_STAYS * target.l2_bytes, 0.0, more)


def running_together(blocks: tuple[LoopInfo, ...], count: Quantity) -> tuple[LoopInfo, ...]:
    """Loops over the part of all blocks that ``count`` of them are, one after another as they
    start; ``blocks`` are outermost first.
    """
    rows: list[Quantity] = []
    for loop in blocks:
        taken = smaller(smaller(loop.together, loop.extent), count)
        count = count / taken
        rows.append(taken)
    part: list[LoopInfo] = []
    for loop, first in zip(reversed(blocks), reversed(rows), strict=True):
        taken = smaller(loop.extent / first, larger(count, 1.0))
        count, trips = count / taken, first * taken
        part.append(replace(loop, extent=trips, reach=(trips - 1.0) * loop.stride))
    return tuple(reversed(part))
