"""The machine that code is made for: every number of a machine stands here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sketch.errors import TargetError

TargetKind = Literal["cpu", "cuda"]


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU or a GPU, as the search and the code generators see it.

    Attributes:
        kind: "cpu" or "cuda".
        arch: LLVM's name of the CPU (``znver5``, ``sapphirerapids``) or ``sm_90``.
        features: LLVM feature string of the CPU, ``+avx512f,...``; empty for GPUs.
        threads: worker threads (CPU), or streaming multiprocessors (GPU).
        vector_bytes: width of a SIMD register; 16 (widest load of a thread) for GPUs.
        registers: SIMD registers (CPU), or 32-bit registers a thread may use (GPU).
        fma_accumulators: independent accumulators that hide the FMA latency: latency * units
            (4 cycles * 2 units = 8, and half as much again for scheduling slack).
        l1_bytes, l2_bytes, l3_bytes: data cache sizes; l1 and l2 a core, l3 shared.
        instruction_budget: vector instructions of straight-line code a kernel may have; bounds
            compile time (about 0.06 ms each) and the instruction cache.
        shared_memory_bytes, threads_per_block, warp_size, registers_per_block: GPU limits.
        max_vthreads: most virtual threads a GPU thread interleaves (warp size / 4, as Ansor).
    """

    kind: TargetKind
    arch: str
    features: str = ""
    threads: int = 1
    vector_bytes: int = 16
    registers: int = 16
    fma_accumulators: int = 12
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 1024 * 1024
    l3_bytes: int = 16 * 1024 * 1024
    cache_line_bytes: int = 64
    instruction_budget: int = 1024
    shared_memory_bytes: int = 0
    threads_per_block: int = 0
    warp_size: int = 0
    registers_per_block: int = 0
    max_vthreads: int = 0

    def lanes(self, dtype_bytes: int = 4) -> int:
        """Elements of ``dtype_bytes`` in a SIMD register."""
        return max(1, self.vector_bytes // dtype_bytes)

    def with_threads(self, threads: int) -> Target:
        """The same machine, using ``threads`` threads."""
        if threads < 1:
            raise TargetError(f"a target needs at least one thread, got {threads}")
        return replace(self, threads=threads)

    def to_json(self) -> dict[str, Any]:
        """All fields by name, for records."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Target:
        """The inverse of ``to_json``; raises TargetError on unknown or missing fields."""
        try:
            return Target(**data)
        except TypeError as error:
            raise TargetError(f"not a target: {dict(data)!r} ({error})") from error
