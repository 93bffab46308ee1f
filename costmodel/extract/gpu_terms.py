"""The draft model of one statement on a GPU: closed form, no data, numbers from ``Target.card``.

A processor issues instructions, passes data through shared memory and moves bytes from L2, each at
its rate; the slowest of the three bounds a block, and the busiest processor bounds the launch.
What too few warps leave open is waited for: cycles of latency over what is under way at a time
(Little's law).  Like the CPU's draft it ranks programs of a task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.access import Access, footprint
from costmodel.extract.analysis import Analysis, product
from costmodel.extract.draft_terms import BoundTerms, DraftTerms
from costmodel.extract.gpu_kernel import KernelShape
from costmodel.extract.gpu_lanes import SECTOR_BYTES, distinct, reordered, sectors, wavefronts
from costmodel.extract.gpu_memory import block_bytes, memory_bytes
from costmodel.extract.gpu_sites import (
    cooperates,
    copies_of,
    fills_with_others,
    is_ahead,
    is_lane,
    only_copies,
    shared_points,
    tile_loops,
    tiles_of,
    turns_of,
)
from costmodel.extract.operations import operation_counts
from costmodel.extract.quantity import (
    Quantity,
    ceil,
    larger,
    more_than_one,
    smaller,
    where,
)
from costmodel.extract.statement import PARALLEL_KINDS, LoopInfo, StoreSite
from costmodel.extract.warp_terms import unit_use
from sketch.nest.loopnest import LoopKind, Scope
from sketch.population.written_out_gpu import taps_are_tested
from sketch.target.target import Target

# Rounds of a copy into shared memory that are under way at a time: those that are written out.
_ROUNDS: Final = 16.0


@dataclass(frozen=True, slots=True, eq=False)
class GpuUse:
    """What one statement asks of a processor for one block; [P] or fixed.

    Attributes:
        issue: cycles of arithmetic and address instructions, or of tensor units, if longer.
        wavefronts: cycles of shared memory.
        bytes: from and to L2, in whole sectors.
        sectors: of an access of global memory, mean over the accesses of a warp.
        conflicts: passes of an access of shared memory, mean.
        in_flight: bytes that a thread has under way at a time.
        independent: results that a thread computes independently of each other.
        rounds: times that a thread waits for a barrier.
        exposed: times that it waits for a tile with nothing else to do.
        turns: times that it goes back to the start of a loop over what a tile holds.
        ahead: whether it copies tiles that are not needed yet.
    """

    issue: Quantity
    wavefronts: Quantity
    bytes: Quantity
    sectors: Quantity
    conflicts: Quantity
    in_flight: Quantity
    independent: Quantity
    rounds: Quantity
    exposed: Quantity
    turns: Quantity
    ahead: bool | NDArray[np.bool_]


def gpu_draft_terms(analysis: Analysis, kernel: KernelShape) -> DraftTerms:
    """Compute, memory and overhead of a statement of a kernel."""
    target, card = analysis.target, analysis.target.card
    use = gpu_use(analysis, kernel)
    warps = kernel.active_warps(target)
    # A warp uses one scheduler, and that in full if it has enough independent operations.
    schedulers = card.fma_lanes / target.warp_size
    full = smaller(use.independent / card.arithmetic_latency, 1.0)
    issue = use.issue / smaller(warps * full / schedulers, 1.0)
    moved = use.bytes / card.l2_bytes_per_cycle
    under_way = smaller(kernel.resident, kernel.busiest) * kernel.threads * use.in_flight
    reach = card.memory_latency * card.l2_bytes_per_cycle
    moved = moved / smaller(under_way / reach, 1.0)
    first = analysis.statement.stage is kernel.first
    # a block also waits for its last warp before another one takes its place
    rounds = use.rounds + (1.0 if first else 0.0)
    waits = rounds * card.barrier_cycles + use.exposed * card.memory_latency
    waits = waits + use.turns * card.shared_latency
    barriers = waits / smaller(kernel.resident, kernel.busiest)
    # tiles that are copied ahead arrive while others are multiplied
    shown = larger(moved - where(use.ahead, kernel.arithmetic, 0.0), 0.0)
    slowest = larger(larger(issue, use.wavefronts), shown)
    rest = issue + use.wavefronts + moved - slowest
    # what hides the time of the faster ones is other warps of the same scheduler, or other results
    several = larger(use.independent / card.results_ahead, 1.0)
    alone = larger(card.warps_ahead * schedulers / (warps * several), 1.0)
    alone = where(use.ahead, 1.0, alone)
    each = slowest + smaller(card.overlap * alone, 1.0) * rest + barriers
    once, again = memory_bytes(analysis, kernel)
    memory = (once + again) / card.memory_bytes_per_s
    busy = kernel.busiest * each / card.hertz
    total = larger(busy, memory)
    total = total + card.overlap * smaller(busy, again / card.memory_bytes_per_s)
    launch = card.launch_seconds if first else 0.0
    return DraftTerms(
        compute=kernel.busiest * issue / card.hertz,
        memory=larger(kernel.busiest * (moved + use.wavefronts) / card.hertz, memory),
        overhead=kernel.busiest * barriers / card.hertz + launch,
        total=total + launch,
    )


def gpu_bound_terms(analysis: Analysis, kernel: KernelShape) -> BoundTerms:
    """The parts of ``gpu_draft_terms`` side by side; its arguments."""
    terms = gpu_draft_terms(analysis, kernel)
    once, again = memory_bytes(analysis, kernel)
    far = (once + again) / analysis.target.card.memory_bytes_per_s
    near = where(terms.memory > far, terms.memory, 0.0)
    return BoundTerms(terms.compute, near, far, terms.overhead)


def gpu_use(analysis: Analysis, kernel: KernelShape) -> GpuUse:
    """What a statement asks of a processor for one block."""
    target = analysis.target
    main = analysis.main
    lanes_used = larger(ceil(shared_points(main) / float(target.warp_size)), 1.0)
    warps = smaller(kernel.warps(target), lanes_used)
    steps = _trips(main, kernel)
    issue = _issue(analysis, kernel, warps)
    passes: Quantity = 0.0
    moved: Quantity = 0.0
    conflicts: list[Quantity] = []
    touched: list[Quantity] = []
    in_flight: Quantity = 0.0
    unrolled = copies_of(main)
    apart = taps_are_tested(main.store, main.reduces)
    unit = unit_use(analysis, kernel) if analysis.uses_unit else None
    if unit is not None:
        slots = unit.issue * target.warp_size / target.card.fma_lanes
        issue, passes = larger(unit.cycles, slots), unit.wavefronts
        conflicts.append(unit.conflicts)
    for access in analysis.accesses:
        if access.site is not main or access.buffer.scope is Scope.LOCAL or unit is not None:
            continue
        lanes = [(p.extent, access.address_step(p)) for p in main.loops if is_lane(main, p)]
        elements = footprint(access, unrolled, target.cache_line_bytes).elements[0]
        requests = steps / product(unrolled) * warps * elements
        if access.buffer.scope is Scope.SHARED:
            alone = _alone(analysis, access, unrolled)
            wide = where(alone > 0.0, 1.0, _wide(target, access, unrolled))
            if apart:  # terms that are tested one by one share no load
                requests, wide = steps * warps, 1.0
            cost = _shared_cost(analysis, access, lanes, wide)
            passes = passes + requests * cost
            loads = requests / (wide * _piece(analysis))
            slots = loads * (1.0 + alone * target.card.copy_instructions)
            issue = issue + slots * target.warp_size / target.card.fma_lanes
            conflicts.append(cost)
        else:
            count = sectors(analysis.programs, target.warp_size, access.element_bytes, lanes)
            touched.append(count)
            requests = requests / _wide(target, access, unrolled)
            bytes_ = _global_bytes(analysis, access, requests * count * SECTOR_BYTES, kernel)
            moved = moved + bytes_
            in_flight = in_flight + _under_way(analysis, kernel, access, elements)
    return GpuUse(
        issue=issue,
        wavefronts=passes,
        bytes=moved,
        sectors=_mean(touched),
        conflicts=_mean(conflicts),
        in_flight=larger(in_flight, 1.0),
        independent=_independent(analysis),
        rounds=_rounds(analysis),
        exposed=_exposed(analysis),
        turns=turns_of(main),
        ahead=is_ahead(main),
    )


def _under_way(
    analysis: Analysis, kernel: KernelShape, access: Access, elements: Quantity
) -> Quantity:
    """Bytes of global memory that a thread has asked for at a time.

    Args:
        analysis: of the statement.
        kernel: that it is in.
        access: to global memory.
        elements: of it in straight-line code.
    """
    main, widest = analysis.main, float(analysis.target.vector_bytes)
    if access.buffer in main.store.targets:  # no thread waits for what it stores
        return elements * access.element_bytes
    if not cooperates(main):
        return smaller(elements * access.element_bytes, widest)
    # its part of a tile is copied in straight-line code, and of as many tiles as there are
    part = larger(shared_points(main) / kernel.threads, 1.0) * access.element_bytes
    if not only_copies(main):
        return smaller(part * elements, _ROUNDS * widest)
    return smaller(part, _ROUNDS * widest) * tiles_of(main)


def _piece(analysis: Analysis) -> Quantity:
    """Elements that a thread copies into shared memory at a time."""
    main = analysis.main
    around = [a for a in analysis.accesses if a.site is main and a.buffer.scope is not Scope.LOCAL]
    width: Quantity = 1.0
    for loop in main.loops if only_copies(main) else ():
        if not is_lane(main, loop):
            continue
        most: Quantity = loop.extent
        for access in around:
            widest = analysis.target.vector_bytes / access.element_bytes
            most = where(access.address_step(loop) == 1.0, smaller(most, widest), 1.0)
        width = larger(width, most)
    return width


def _trips(site: StoreSite, kernel: KernelShape) -> Quantity:
    """Executions of a store in one thread."""
    own = tuple(
        p
        for p in site.loops
        if p.kind not in PARALLEL_KINDS
        and p.kind is not LoopKind.THREAD
        and not (cooperates(site) and p.kind is LoopKind.VTHREAD)
    )
    return product(own) * ceil(shared_points(site) / kernel.threads)


def _issue(analysis: Analysis, kernel: KernelShape, warps: Quantity) -> Quantity:
    """Cycles in which a processor issues the arithmetic of a block."""
    target, card = analysis.target, analysis.target.card
    total: Quantity = 0.0
    for site in analysis.statement.sites:
        operations = operation_counts(site.store)
        weight = sum(number * _cycles(kind, target) for kind, number in operations.items())
        used = smaller(kernel.warps(target), ceil(shared_points(site) / float(target.warp_size)))
        trips = _trips(site, kernel)
        total = total + larger(used, 1.0) * (trips * weight + _addresses(analysis, site, trips))
    return total * target.warp_size / card.fma_lanes


def _addresses(analysis: Analysis, site: StoreSite, trips: Quantity) -> Quantity:
    """Instructions of a thread that find what it accesses, in all its ``trips``."""
    card = analysis.target.card
    # unrolled copies share their addresses, and the loop around them
    pieces = trips / (product(copies_of(site)) * _piece(analysis))
    if not cooperates(site):
        return pieces * card.address_instructions
    # pieces of a tile are at fixed distances
    tiles = product(tile_loops(site))
    # one that a thread waits for is loaded and stored
    each = card.copy_instructions + where(is_ahead(site), 0.0, 1.0)
    return tiles * card.address_instructions + pieces * each


def _cycles(kind: str, target: Target) -> float:
    """Issue slots of an operation: transcendental functions and divisions have fewer units."""
    return target.card.special_slots if kind in ("float_math", "float_div") else 1.0


def _shared_cost(
    analysis: Analysis,
    access: Access,
    lanes: list[tuple[Quantity, Quantity]],
    width: Quantity,
) -> Quantity:
    """Passes for one element a lane; a load of ``width`` elements takes fewer, where lanes share or
    follow.
    """
    target = analysis.target
    swizzle = access.buffer.swizzle
    passes = wavefronts(analysis.programs, target.warp_size, access.element_bytes, lanes, swizzle)
    words = distinct(analysis.programs, target.warp_size, lanes)
    words = words * access.element_bytes / 4.0
    least = ceil(words / float(target.warp_size))
    wide = ceil(words * width / float(target.warp_size)) * larger(passes / least / width, 1.0)
    return wide / width


def _alone(
    analysis: Analysis, access: Access, unrolled: tuple[LoopInfo, ...]
) -> float | NDArray[np.float64]:
    """1 where a thread finds the address of each element that it reads, else 0: in swizzled rows
    whose order differs between threads, or turns, so that it is no constant of a copy.
    """
    swizzle = access.buffer.swizzle
    if swizzle is None or cooperates(access.site):
        return 0.0
    copies = {loop.var: loop.extent for loop in unrolled}
    steps = []
    for loop in analysis.main.loops:
        if loop.kind in PARALLEL_KINDS:
            continue
        count = copies.get(loop.var, 1.0)
        steps.append(access.address_step(loop) * count * more_than_one(loop.extent / count))
    return reordered(analysis.programs, steps, swizzle)


def _wide(target: Target, access: Access, unrolled: tuple[LoopInfo, ...]) -> Quantity:
    """Elements of an access of a thread: those that follow each other in unrolled copies."""
    most = target.vector_bytes / access.element_bytes
    width: Quantity = 1.0
    for loop in unrolled:
        follow = access.address_step(loop) == 1.0
        width = larger(width, where(follow, smaller(loop.extent, most), 1.0))
    return width


def _global_bytes(
    analysis: Analysis, access: Access, requested: Quantity, kernel: KernelShape
) -> Quantity:
    """Bytes of a block that pass L2: each request, or once what L1 holds of the block's data."""
    once = block_bytes(access)
    room = analysis.target.l1_bytes / kernel.resident - kernel.shared_bytes
    return where(once <= room, smaller(requested, once), requested)


def _independent(analysis: Analysis) -> Quantity:
    """Results of a thread that do not wait for each other."""
    spatial = tuple(p for p in copies_of(analysis.main) if not p.reduce)
    return larger(product(spatial), 1.0)


def _rounds(analysis: Analysis) -> Quantity:
    """Times that all threads of a block wait for each other: fills of shared memory, trees."""
    site = analysis.main
    if cooperates(site):
        if fills_with_others(site):
            return 0.0
        tiles = tiles_of(site)
        return where(tiles > 1.0, 1.0, 2.0) * product(tile_loops(site))
    tree = any(p.reduce and p.kind is LoopKind.THREAD for p in site.loops)
    return 2.0 if tree else 0.0


def _exposed(analysis: Analysis) -> Quantity:
    """Times that a block waits for a tile: it needs it at once, as no other is there, or computes
    with what it has read.
    """
    site = analysis.main
    if site.store.targets[0].scope is not Scope.SHARED:
        return 0.0
    return where(is_ahead(site), 0.0, product(tile_loops(site)))


def _mean(values: list[Quantity]) -> Quantity:
    total: Quantity = 0.0
    for value in values:
        total = total + value
    return total / len(values) if values else 0.0
