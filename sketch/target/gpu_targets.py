"""GPU targets from their compute capability alone: no device is needed."""

from typing import Final

from sketch.errors import TargetError
from sketch.target.target import Target

# Streaming multiprocessors, L2 bytes and opt-in shared bytes a block, from NVIDIA's tuning guides.
_ARCHS: Final = {
    "sm_80": (108, 40 * 2**20, 163 * 1024),
    "sm_86": (84, 6 * 2**20, 99 * 1024),
    "sm_89": (128, 72 * 2**20, 99 * 1024),
    "sm_90": (132, 50 * 2**20, 227 * 1024),
}

MODELS: Final = {
    "a100": "sm_80",
    "rtx3090": "sm_86",
    "l40": "sm_89",
    "rtx4090": "sm_89",
    "h100": "sm_90",
    "h200": "sm_90",
}
"""Architectures of well-known processors."""


def cuda_target(arch: str = "sm_90") -> Target:
    """The target of an NVIDIA architecture; raises TargetError on an unknown one.

    Shared memory is limited to what a block may declare statically (48 KB), registers to the 255
    that one thread can address.
    """
    if arch not in _ARCHS:
        known = ", ".join((*_ARCHS, *MODELS))
        raise TargetError(f"unknown GPU architecture {arch!r}", hint=f"known: {known}")
    processors, l2_bytes, shared = _ARCHS[arch]
    return Target(
        kind="cuda",
        arch=arch,
        threads=processors,
        vector_bytes=16,
        registers=255,
        fma_accumulators=4,
        l1_bytes=shared,
        l2_bytes=l2_bytes,
        l3_bytes=0,
        cache_line_bytes=128,
        instruction_budget=4096,
        shared_memory_bytes=48 * 1024,
        threads_per_block=1024,
        warp_size=32,
        registers_per_block=65536,
        max_vthreads=8,
    )
