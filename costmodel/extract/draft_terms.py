"""The draft model of one statement: closed form, no data, all numbers from ``Target``.

Time is counted in cycles of a nominal machine and then scaled by ``NOMINAL_HZ``: the draft ranks
programs of a task and prunes hopeless ones; it does not predict milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from costmodel.extract.analysis import Analysis
from costmodel.extract.quantity import Floats, Quantity, larger, smaller, where
from costmodel.extract.registers import RegisterTile
from costmodel.extract.structure import branches, busiest_share, specialized_fill, tasks_of
from costmodel.extract.validity import Validity


@dataclass(frozen=True, slots=True)
class Rates:
    """Ratios that hold for out-of-order cores in general; units are cycles and SIMD registers.

    Attributes:
        hertz: nominal clock, only a scale.
        fma_slack: accumulators of the target per (latency * units): see Target.fma_accumulators.
        fma_latency: cycles of a multiply-add.
        loads: SIMD loads (or broadcasts) a cycle from L1.
        l2, l3, memory: SIMD registers a cycle that arrive from L2, from L3 and from memory.
        overlap: share of the smaller of compute and memory time that is not hidden.
        branch: cycles of a loop iteration that nothing hides.
        region: cycles to start and join a parallel region.
        spill: how much slower a step gets for each accumulator that does not fit, relative to one
            accumulator's share of it: a load and a store beside one operation.
        guarded: how much slower code is whose predicates could not be specialised away.
    """

    hertz: float = 4e9
    fma_slack: float = 1.5
    fma_latency: float = 4.0
    loads: float = 2.0
    l2: float = 1.0
    l3: float = 0.25
    memory: float = 0.08
    overlap: float = 0.3
    branch: float = 1.0
    region: float = 2000.0
    spill: float = 2.0
    guarded: float = 2.0


RATES: Final = Rates()
# Cycles of an operation relative to a multiply-add; what is not listed costs one.
CYCLES: Final = {"float_math": 16.0, "float_div": 5.0, "int": 0.5, "bool": 0.5}


@dataclass(frozen=True, slots=True, eq=False)
class DraftTerms:
    """Seconds; [P] or fixed.  ``total`` is on all threads, the parts are on one."""

    compute: Quantity
    memory: Quantity
    overhead: Quantity
    total: Quantity


def draft_terms(
    analysis: Analysis,
    tile: RegisterTile,
    checks: Validity,
    traffic: dict[str, list[Floats]],
    rates: Rates = RATES,
) -> DraftTerms:
    """Compute, memory and overhead of a statement."""
    compute = _compute_cycles(analysis, tile, checks, rates)
    private, shared = _memory_cycles(analysis, traffic, rates)
    overhead = branches(analysis) * checks.tail_executed * rates.branch
    local = larger(compute, private) + rates.overlap * smaller(compute, private) + overhead
    each = local * busiest_share(analysis, checks)
    # L3 and memory are shared: more threads do not make them faster.
    total = larger(each, shared) + rates.overlap * smaller(each, shared)
    total = total + where(tasks_of(analysis) > 1.0, rates.region, 0.0)
    return DraftTerms(
        compute=compute / rates.hertz,
        memory=(private + shared) / rates.hertz,
        overhead=overhead / rates.hertz,
        total=total / rates.hertz,
    )


def _compute_cycles(
    analysis: Analysis, tile: RegisterTile, checks: Validity, rates: Rates
) -> Quantity:
    units = analysis.target.fma_accumulators / (rates.fma_slack * rates.fma_latency)
    reduces = analysis.main.store.reducer is not None
    steps = analysis.trips / (tile.rows * tile.vectors) * _vector_share(analysis, tile)
    weight = sum(
        CYCLES.get(kind, 1.0) * number for kind, number in analysis.main_operations.items()
    )
    arithmetic = tile.accumulators * weight / units
    if reduces:
        # Every accumulator waits for its own last update.
        arithmetic = larger(arithmetic, rates.fma_latency * rates.fma_slack / 1.25)
    loads = (tile.vector_loads + tile.broadcast_loads + 2.0 * tile.gathered_loads) / rates.loads
    step = larger(arithmetic, loads) + 0.15 * smaller(arithmetic, loads)
    missing = larger(tile.registers - float(analysis.target.registers), 0.0)
    if reduces:
        spilled = smaller(missing, tile.accumulators)
        share = spilled / tile.accumulators
        step = step * (1.0 + where(missing > 0.0, 0.25, 0.0) + rates.spill * share)
        step = step + _start_and_finish(tile, rates)
    main = steps * step * checks.tail_executed * checks.padding_valid
    guarded = (specialized_fill(analysis, tile, checks) > 1.0) & (checks.growth > 1.0)
    return main * where(guarded, rates.guarded, 1.0) + _other_sites(analysis, tile)


def _vector_share(analysis: Analysis, tile: RegisterTile) -> Quantity:
    """Vector operations per execution of the store: parts of a vectorised loop over its width."""
    lanes = float(analysis.target.lanes(analysis.lane_bytes))
    parts = tile.width / (tile.lane_use * lanes)
    return parts / tile.width


def _start_and_finish(tile: RegisterTile, rates: Rates) -> Quantity:
    """Cycles of a step's share in initialising, draining and storing the accumulators."""
    per_tile = 1.5 * tile.accumulators + 3.0 * rates.fma_latency
    return per_tile / larger(tile.chain * tile.reduce_unroll, 1.0)


def _other_sites(analysis: Analysis, tile: RegisterTile) -> Quantity:
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
    """(cycles on L2, cycles on what all cores share)."""
    width = float(analysis.target.vector_bytes)
    moved = {cache: sum(parts[1:], parts[0]) / width for cache, parts in traffic.items()}
    return moved["l1"] / rates.l2, moved["l2"] / rates.l3 + moved["l3"] / rates.memory
