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
        hertz: highest clock under load.
        fma_lanes: fp32 multiply-adds that a processor (SM) starts a cycle.
        shared_block_bytes: most shared memory of a block, asked for at launch;
            ``Target.shared_memory_bytes`` is what it may declare statically.
        shared_processor_bytes, registers_per_processor, threads_per_processor,
            blocks_per_processor: what the blocks on one processor share.
        memory_bytes: device memory.
        memory_bytes_per_s: its bandwidth.
        half_macs, tf32_macs, int8_macs: multiply-adds a cycle of a processor's tensor units, dense,
            accumulated in fp32 or int32; 0: it has no such unit.
    """

    name: str = ""
    emulated: bool = False
    hertz: float = 0.0
    fma_lanes: int = 0
    shared_block_bytes: int = 0
    shared_processor_bytes: int = 0
    registers_per_processor: int = 0
    threads_per_processor: int = 0
    blocks_per_processor: int = 0
    memory_bytes: int = 0
    memory_bytes_per_s: float = 0.0
    half_macs: int = 0
    tf32_macs: int = 0
    int8_macs: int = 0


NO_CARD: Final = GpuCard()
