"""How fast a machine is: what the draft model counts time with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Rates:
    """Throughputs and latencies; the defaults hold for out-of-order cores in general.

    Units are cycles and SIMD registers.  Only ratios matter: the draft ranks programs.

    Attributes:
        hertz: nominal clock, only a scale.
        fma_slack: accumulators of the target per (latency * units): see Target.fma_accumulators.
        fma_latency: cycles of a multiply-add.
        float_math, float_div, integer: cycles of a transcendental function, of a division and of
            an integer or boolean operation, relative to a multiply-add.
        loads: SIMD loads (or broadcasts) a cycle from L1.
        load_overlap: share of the smaller of arithmetic and loads of a step that is not hidden.
        l2, l3, memory: SIMD registers a cycle that arrive from L2, from L3 and from memory.
        unfetched: how long a thread waits for constants from beyond L2 that nothing fetches ahead,
            relative to the time in which so much arrives from L3.
        jumping: how much longer a register takes from L2 where neighbours in a tile are in
            different pages.
        page_bytes: what a processor fetches ahead of a walk through memory ends at such bounds.
        overlap: share of the smaller of compute and memory time that is not hidden.
        branch: cycles of a loop iteration that nothing hides: most of it runs beside the work.
        shared_line: cycles until a line comes from another core that has written to it.
        handed_line: cycles in which one of many lines arrives that another core has used last.
        region: cycles to start and join a parallel region.
        chain_slack: how much of the scheduling slack in ``fma_slack`` a chain of updates of one
            accumulator does without.
        tile_accumulator: cycles to initialise, drain and store one accumulator of a tile.
        memory_accumulator: cycles more where the accumulator waits in memory between two visits.
        tile_latencies: latencies of a multiply-add that starting and finishing a tile exposes.
        spill: how much slower a step gets for each accumulator that does not fit, relative to one
            accumulator's share of it: a load and a store beside one operation.
        spill_start: how much slower a step gets as soon as anything does not fit.
        guarded: how much slower code is whose predicates could not be specialised away.
        partial_reduce: how much slower a step gets where an unrolled reduce loop does not divide
            its reduction: loops of unknown length around it spill accumulators.
        tile_product: cycles of a product on tile registers, of all its rows.
        tile_least: share of that which a product of few rows takes.
        tile_load, tile_store: cycles to load a tile register, to store one.
        tile_arrival: share of the time in which operands of tile registers come from L2 that
            products wait for: the rows of a register are on their way together.
        tile_copy: cycles to copy an operand of all rows of which a part is missing, before it is
            loaded.
    """

    hertz: float = 4e9
    fma_slack: float = 1.5
    fma_latency: float = 4.0
    float_math: float = 16.0
    float_div: float = 5.0
    integer: float = 0.5
    loads: float = 2.0
    load_overlap: float = 0.15
    l2: float = 0.5
    l3: float = 0.25
    memory: float = 0.08
    unfetched: float = 1.0
    jumping: float = 1.0
    page_bytes: float = 4096.0
    overlap: float = 0.3
    branch: float = 0.2
    shared_line: float = 25.0
    handed_line: float = 20.0
    region: float = 400.0
    chain_slack: float = 1.25
    tile_accumulator: float = 3.0
    memory_accumulator: float = 2.5
    tile_latencies: float = 3.0
    spill: float = 2.0
    spill_start: float = 0.25
    guarded: float = 1.5
    partial_reduce: float = 0.4
    tile_product: float = 9.6
    tile_least: float = 0.6
    tile_load: float = 8.0
    tile_store: float = 16.0
    tile_arrival: float = 0.3
    tile_copy: float = 50.0


USUAL_RATES: Final = Rates()
_USUAL_BYTES: Final = 64  # of the registers that ``l2``, ``l3`` and ``memory`` of these count
_SHORT_LOADS: Final = 1.5  # loads a cycle, of which few are saved where registers are few


def nominal_rates(vector_bytes: int) -> Rates:
    """The rates of a core with vector registers of ``vector_bytes``: caches deliver as many bytes
    a cycle to short registers as to long ones.

    Cores with short registers have half as many, which hold small tiles with more loads for each
    operation.  Tiles of twelve rows and one vector reach 0.7 of the speed of six rows and two
    vectors on Zen 3, although two loads a cycle would be enough for both.

    On Zen 3 (32 bytes) five networks that were compiled with these bandwidths and not tuned took
    0.85 to 1.0 of the time that they took with those of registers of 64 bytes, and 0.82 to 0.99 of
    that with these loads.
    """
    if vector_bytes >= _USUAL_BYTES:
        return USUAL_RATES
    more = _USUAL_BYTES / vector_bytes
    usual = USUAL_RATES
    return replace(
        usual,
        loads=_SHORT_LOADS,
        l2=more * usual.l2,
        l3=more * usual.l3,
        memory=more * usual.memory,
    )
