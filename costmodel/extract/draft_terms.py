"""The draft model of one statement: closed form, no data, numbers from ``Target``.

Time is counted in cycles and then scaled by ``Rates.hertz``: the draft ranks
programs of a task and prunes those far behind; it does not predict milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.access import Access
from costmodel.extract.analysis import Analysis
from costmodel.extract.handed_over import lines_handed_over
from costmodel.extract.locality import capacities
from costmodel.extract.quantity import Floats, Quantity, larger, smaller, to_quantity, where
from costmodel.extract.registers import AccumulatorTile
from costmodel.extract.shared_lines import stores_to_shared_lines
from costmodel.extract.statement import UNROLLED_KINDS
from costmodel.extract.structure import branches, busiest_share, tasks_of
from costmodel.extract.tile_terms import in_memory, tile_cycles
from costmodel.extract.turned_copies import cost_of_gathered
from costmodel.extract.turns import turns
from costmodel.extract.validity import Validity
from sketch.nest.loopnest import Scope
from sketch.target.rates import Rates
from sketch.target.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class DraftTerms:
    """Seconds; [P] or fixed.  ``total`` is on all threads, the parts are on one."""

    compute: Quantity
    memory: Quantity
    overhead: Quantity
    total: Quantity


@dataclass(frozen=True, slots=True, eq=False)
class BoundTerms:
    """Seconds of a statement on all threads, none overlapped; [P] or fixed.

    Attributes:
        compute: arithmetic, and what feeds it from the first cache.
        near: between the second cache and the cores; on a GPU shared memory, too.
        far: of what all cores share.
        waits: for loops, threads, barriers and launches, for constants that nothing fetched, and
            for lines that another thread has written.
    """

    compute: Quantity
    near: Quantity
    far: Quantity
    waits: Quantity


def draft_terms(
    analysis: Analysis,
    tile: AccumulatorTile,
    checks: Validity,
    traffic: dict[str, list[Floats]],
) -> DraftTerms:
    """Compute, memory and overhead of a statement, [P] seconds each.

    Args:
        analysis: loops and accesses of the statement.
        tile: its register tile.
        checks: bound checks of its loops.
        traffic: bytes moved at each level of memory, [P] each.
    """
    rates = analysis.target.rates
    compute = _compute_cycles(analysis, tile, checks, rates)
    private, shared = _memory_cycles(analysis, traffic, rates)
    overhead = _overhead_cycles(analysis, checks)
    local = _with_arrivals(analysis, compute, private) + overhead
    local = local + _fetch_cycles(analysis, tile, traffic, compute) + _shared_cycles(analysis)
    each = local * busiest_share(analysis, checks)
    # L3 and memory are shared: more threads do not make them faster.
    total = larger(each, shared) + rates.overlap * smaller(each, shared)
    total = total + _region_cycles(analysis)
    return DraftTerms(
        compute=compute / rates.hertz,
        memory=(private + shared) / rates.hertz,
        overhead=overhead / rates.hertz,
        total=total / rates.hertz,
    )


def bound_terms(
    analysis: Analysis,
    tile: AccumulatorTile,
    checks: Validity,
    traffic: dict[str, list[Floats]],
) -> BoundTerms:
    """The parts of ``draft_terms`` side by side.

    Args:
        analysis: loops and accesses of the statement.
        tile: its register tile.
        checks: bound checks of its loops.
        traffic: bytes moved at each level of memory, [P] each.
    """
    rates = analysis.target.rates
    private, shared = _memory_cycles(analysis, traffic, rates)
    share = busiest_share(analysis, checks) / rates.hertz
    compute = _compute_cycles(analysis, tile, checks, rates)
    waiting = _overhead_cycles(analysis, checks) + _fetch_cycles(analysis, tile, traffic, compute)
    waiting = waiting + _shared_cycles(analysis)
    waits = share * waiting + _region_cycles(analysis) / rates.hertz
    return BoundTerms(
        compute=share * compute,
        near=share * private,
        far=shared / rates.hertz,
        waits=waits,
    )


def _with_arrivals(analysis: Analysis, compute: Quantity, private: Quantity) -> Quantity:
    """Arithmetic, and what it waits for from L2; nothing is computed while a tile register that is
    needed is loaded.
    """
    rates = analysis.target.rates
    if analysis.uses_tiles:
        return compute + rates.tile_arrival * private
    return larger(compute, private) + rates.overlap * smaller(compute, private)


def _overhead_cycles(analysis: Analysis, checks: Validity) -> Quantity:
    """Of the loops that are executed as such, on one thread."""
    return branches(analysis) * checks.tail_executed * analysis.target.rates.branch


def _shared_cycles(analysis: Analysis) -> Quantity:
    """Of lines that go from core to core, on one thread if it made all accesses."""
    rates = analysis.target.rates
    stored = stores_to_shared_lines(analysis) * rates.shared_line
    return stored + lines_handed_over(analysis) * rates.handed_line


def _region_cycles(analysis: Analysis) -> Quantity:
    """Of starting and joining the threads, once for all statements in the same loops."""
    if analysis.target.threads == 1 or not analysis.statement.starts_region:
        return 0.0
    return where(tasks_of(analysis) > 1.0, analysis.target.rates.region, 0.0)


def operations_per_cycle(target: Target) -> float:
    """Multiply-adds of vectors that a core starts in a cycle, or operations of a tensor unit whose
    operands are vectors.
    """
    return target.fma_accumulators / (target.rates.fma_slack * target.rates.fma_latency)


def _compute_cycles(
    analysis: Analysis, tile: AccumulatorTile, checks: Validity, rates: Rates
) -> Quantity:
    if analysis.uses_tiles:
        return tile_cycles(analysis, tile, checks) + _other_sites(analysis, tile)
    units = operations_per_cycle(analysis.target)
    reduces = analysis.main.store.reducer is not None
    steps = analysis.trips / (tile.rows * tile.vectors) * _vector_share(analysis, tile)
    if analysis.uses_unit:
        steps = steps / analysis.unit_terms
    cycles = _cycles(rates)
    weight = sum(
        cycles.get(kind, 1.0) * number for kind, number in analysis.main_operations.items()
    )
    arithmetic = tile.accumulators * weight / units
    # Every accumulator waits for its own last update.
    least = rates.fma_latency * rates.fma_slack / rates.chain_slack if reduces else 0.0
    arithmetic = larger(arithmetic, least)
    gathered = cost_of_gathered(analysis, tile.width) * tile.gathered_loads
    loads = tile.vector_loads + tile.broadcast_loads + gathered + tile.prefetches
    loads = loads / rates.loads
    slower = larger(arithmetic, loads)
    step = slower + rates.load_overlap * smaller(arithmetic, loads) + tile.evicted / rates.l2
    missing = larger(tile.registers - float(analysis.target.registers), 0.0)
    if reduces:
        spilled = smaller(missing, tile.accumulators)
        share = spilled / tile.accumulators
        step = step * (1.0 + where(missing > 0.0, rates.spill_start, 0.0) + rates.spill * share)
        step = step + _start_and_finish(analysis, tile, rates) + _reloads(analysis, tile, checks)
    main = (
        steps
        * step
        * _edges(analysis, tile, checks, least / larger(slower, 1.0))
        * checks.padding_valid
    )
    return main + _other_sites(analysis, tile)


def _edges(
    analysis: Analysis, tile: AccumulatorTile, checks: Validity, least: Quantity
) -> Quantity:
    """Share of the trips that is computed, and how much slower edges make them.

    A copy for an edge computes what is inside, but takes at least the share ``least`` of a tile.
    Copies beyond the budget are not made: that share of them leaves its predicates in the code, and
    the end of an unrolled reduction costs too.
    """
    target, rates = analysis.target, analysis.target.rates
    step = tile.operations + tile.loads
    copied = step * (tile.reduce_unroll + checks.growth - 1.0)
    room = target.instruction_budget * target.code.budget_used
    left = where(checks.growth > 1.0, larger(1.0 - room / larger(copied, 1.0), 0.0), 0.0)
    # Ends in straight-line code spill only what its copies share.
    spills = (checks.reduce_growth > 1.0) & (
        (checks.looped_ends > 0.0) | (tile.broadcast_loads > 0.0)
    )
    partial = where(spills, rates.partial_reduce, 0.0)
    outside = larger(1.0 - checks.edge_inside, 1e-6)
    idle = larger(left, (least - checks.edge_inside) / outside)
    computed = checks.tile_valid + (1.0 - checks.tile_valid) * idle
    return checks.tail_executed * computed * (1.0 + (rates.guarded - 1.0) * left + partial)


def _cycles(rates: Rates) -> dict[str, float]:
    """Cycles of an operation relative to a multiply-add; what is not listed costs one."""
    return {
        "float_math": rates.float_math,
        "float_div": rates.float_div,
        "int": rates.integer,
        "bool": rates.integer,
    }


def _vector_share(analysis: Analysis, tile: AccumulatorTile) -> Quantity:
    """Vector operations per execution of the store: parts of a vectorised loop over its width."""
    lanes = float(analysis.target.lanes(analysis.lane_bytes))
    parts = tile.width / (tile.lane_use * lanes)
    return parts / tile.width


def _start_and_finish(analysis: Analysis, tile: AccumulatorTile, rates: Rates) -> Quantity:
    """Cycles of a step's share in initialising, draining and storing the accumulators."""
    each = rates.tile_accumulator + where(in_memory(analysis), rates.memory_accumulator, 0.0)
    per_tile = each * tile.accumulators + rates.tile_latencies * rates.fma_latency
    return per_tile / larger(tile.chain * tile.reduce_unroll, 1.0)


def _reloads(analysis: Analysis, tile: AccumulatorTile, checks: Validity) -> Quantity:
    """Cycles of a step's share in spilling accumulators around a loop of unknown bounds."""
    full = tile.live > float(analysis.target.registers)
    per_visit = analysis.target.rates.tile_accumulator * tile.accumulators
    return where(full, per_visit / checks.bounded_trips, 0.0)


def _other_sites(analysis: Analysis, tile: AccumulatorTile) -> Quantity:
    """Write-back: one vector operation and a load for each of its vectors."""
    total: Quantity = 0.0
    share = _vector_share(analysis, tile)
    for site in analysis.statement.sites:
        if site is analysis.main:
            continue
        trips: Quantity = 1.0
        for loop in site.loops:
            trips = trips * loop.extent
        total = total + trips * share
    return total


def _memory_cycles(
    analysis: Analysis, traffic: dict[str, list[Floats]], rates: Rates
) -> tuple[Floats, Floats]:
    """(cycles on L2, cycles on what all cores share).

    What fits the last cache is there already: another layer has just written it, or the last
    inference has left it.
    """
    width = float(analysis.target.vector_bytes)
    moved = {cache: sum(parts[1:], parts[0]) / width for cache, parts in traffic.items()}
    near = moved["l1"]
    if not analysis.uses_tiles:  # their rows are in different pages anyway
        jumping = [
            part * where(_jumps(access, rates), rates.jumping, 0.0)
            for access, part in zip(analysis.accesses, traffic["l1"], strict=True)
        ]
        near = near + sum(jumping[1:], jumping[0]) / width
    whole = analysis.working_set[0]
    fits = whole <= capacities(analysis.target)["l3"]
    memory = where(fits, moved["l3"] - whole / width, moved["l3"])
    return near / rates.l2, moved["l2"] / rates.l3 + larger(memory, 0.0) / rates.memory


def _fetch_cycles(
    analysis: Analysis,
    tile: AccumulatorTile,
    traffic: dict[str, list[Floats]],
    compute: Quantity,
) -> Quantity:
    """Of waiting for constants from beyond L2 that nothing fetches ahead, or so far ahead that some
    of them have left L2 again when they are read: the more, the more of it lies between.

    What is read once streams through the core; what is read again later arrives in bursts, in the
    part of ``compute`` that is spent on its first reading, unless prefetches are spread.
    """
    rates = analysis.target.rates
    total: Quantity = 0.0
    room, width = capacities(analysis.target)["l2"], float(analysis.target.vector_bytes)
    reads = analysis.trips / larger(tile.rows, 1.0)
    for access, far in zip(analysis.accesses, traffic["l2"], strict=True):
        if access.buffer.scope is Scope.CONSTANT:
            passes = larger(reads * access.element_bytes / larger(far, 1.0), 1.0)
            ahead = to_quantity(access.buffer.ahead) * access.element_bytes
            missing = where(ahead > 0.0, smaller(ahead / room, 1.0), 1.0)
            waited: Quantity = rates.unfetched * missing * far / (width * rates.l3)
            arrival = far / (width * rates.memory)
            burst = larger(arrival - compute / passes, 0.0) - larger(arrival - compute, 0.0)
            spread = (ahead > 0.0) & (turns(access, room / 2.0) > 1.0)
            # A network with constants larger than L2 does not fit the last cache, as a rule.
            burst = where(far > room, burst, 0.0)
            waited = where(spread, waited, larger(waited, burst))
            total = total + where(passes > 1.0, waited, 0.0)
    return total


def _jumps(access: Access, rates: Rates) -> bool | NDArray[np.bool_]:
    """Whether copies of straight-line code touch different pages: nothing is fetched ahead."""
    farthest: Quantity = 0.0
    for loop in access.site.loops:
        if loop.kind in UNROLLED_KINDS and not loop.reduce:
            step = access.address_step(loop) * access.element_bytes
            farthest = larger(farthest, where(loop.extent > 1.0, larger(step, -step), 0.0))
    return farthest >= rates.page_bytes
