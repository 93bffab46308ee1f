"""Features that only kernels of a GPU have."""

from __future__ import annotations

from costmodel.extract.analysis import Analysis
from costmodel.extract.gpu_kernel import KernelShape
from costmodel.extract.gpu_terms import gpu_use
from costmodel.extract.quantity import Quantity, ceil, larger, smaller


def gpu_columns(analysis: Analysis, kernel: KernelShape) -> dict[str, Quantity]:
    """Blocks and threads, what they hold of a processor, and what the statement asks of it."""
    target, card = analysis.target, analysis.target.card
    use = gpu_use(analysis, kernel)
    warps = kernel.active_warps(target)
    most = float(card.threads_per_processor) / target.warp_size
    cycles = use.issue + use.wavefronts + use.bytes / card.l2_bytes_per_cycle
    return {
        "gpu_blocks": kernel.blocks,
        "gpu_threads": kernel.threads,
        "gpu_lane_use": kernel.threads / (kernel.warps(target) * target.warp_size),
        "gpu_occupancy": smaller(warps / most, 1.0),
        "gpu_waves": ceil(kernel.busiest / kernel.resident),
        "gpu_tail": kernel.busiest * float(target.threads) / kernel.blocks,
        "gpu_shared_fill": kernel.shared_bytes / float(card.shared_block_bytes),
        "gpu_register_fill": kernel.registers / float(target.registers),
        "gpu_sectors": use.sectors,
        "gpu_wavefronts": use.conflicts,
        "gpu_issue_share": use.issue / larger(cycles, 1e-9),
        "gpu_shared_share": use.wavefronts / larger(cycles, 1e-9),
        "gpu_block_bytes": use.bytes,
        "gpu_in_flight": use.in_flight * kernel.threads,
        "gpu_independent": use.independent,
        "gpu_rounds": use.rounds,
    }
