"""What a GPU has beside what every target has: clock, units and memory of a card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class GpuCard:
    """A GPU's numbers; the defaults stand for a target that is no GPU.

    Attributes:
        name: ``h200``; "" of an architecture in general.  Records of one architecture and one name
            are of one machine, whatever the other numbers say.
        emulated: kernels run on the emulated device: right results, estimated times.  Its records
            never count for the card itself.
        checked: the emulated device checks every access to memory; no part of records.
        hertz: highest clock under load.
        fma_lanes: fp32 multiply-adds that a processor (SM) starts a cycle.
        shared_block_bytes: most shared memory of a block, asked for at launch;
            ``Target.shared_memory_bytes`` is what it may declare statically.
        shared_processor_bytes, registers_per_processor, threads_per_processor,
            blocks_per_processor: what the blocks on one processor share.
        memory_bytes: device memory.
        memory_bytes_per_s: its bandwidth.
        l2_bytes_per_cycle: that a processor gets from L2 while all others do, too.
        memory_latency: cycles of a load that misses L1.
        shared_latency: cycles until a thread has its first operands from shared memory.
        arithmetic_latency: cycles from a multiply-add to one that needs its result.
        barrier_cycles: that a block waits for its last warp, and for the data it asked for.
        launch_seconds: from the end of a kernel to the start of the next one of a graph.
        special_slots: issue slots of a transcendental function or a division.
        address_instructions: integer instructions of a point that threads share out together.
        copy_instructions: instructions of a piece that a thread copies into shared memory.
        overlap: share of the faster resources' time that the slowest one does not hide.
        warps_ahead: of a scheduler, from which on more of them hide no more of each other's time.
        results_ahead: of a warp, so many independent ones of a thread hide as much as a warp more.
        half_macs, tf32_macs, int8_macs: multiply-adds a cycle of a processor's tensor units, dense,
            accumulated in fp32 or int32; 0: it has no such unit.
        warp_share: of these, what products of single warps reach where others are of four warps.
    """

    name: str = ""
    emulated: bool = False
    checked: bool = False
    hertz: float = 0.0
    fma_lanes: int = 0
    shared_block_bytes: int = 0
    shared_processor_bytes: int = 0
    registers_per_processor: int = 0
    threads_per_processor: int = 0
    blocks_per_processor: int = 0
    memory_bytes: int = 0
    memory_bytes_per_s: float = 0.0
    l2_bytes_per_cycle: float = 32.0
    memory_latency: float = 600.0
    shared_latency: float = 50.0
    arithmetic_latency: float = 4.0
    barrier_cycles: float = 60.0
    launch_seconds: float = 1.5e-6
    special_slots: float = 8.0
    address_instructions: float = 8.0
    copy_instructions: float = 4.0
    overlap: float = 0.2
    warps_ahead: float = 4.0
    results_ahead: float = 16.0
    half_macs: int = 0
    tf32_macs: int = 0
    int8_macs: int = 0
    warp_share: float = 1.0

    def unit_macs(self, element_bytes: int) -> int:
        """Multiply-adds a cycle of a processor's tensor units on elements of 1, 2 or 4 bytes."""
        return {1: self.int8_macs, 2: self.half_macs}.get(element_bytes, self.tf32_macs)


NO_CARD: Final = GpuCard()
