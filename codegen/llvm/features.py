"""What a CPU's instruction set can do by itself, as far as the emitter chooses by it."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.llvm.functions.of_tables import REGISTER_LANES
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class ProcessorFeatures:
    """Attributes:
    rounding: instructions for floor, ceil, trunc and round.
    fused: multiply-adds that are rounded once, of float64 too.
    half: instructions between float16 and float32.
    brain: an instruction from float32 to bfloat16 that may be used: denormal numbers become 0.
    wide: registers of 16 floats, tables of two of them, and scaling by powers of two.
    masked_registers: constraint letter of vector registers in inline assembly, where the processor
        has masked loads; empty where LLVM makes branches of them.
    parts_stored: plain stores of parts of a vector are faster than a masked one.
    vector_bytes: length of a vector register.
    line_bytes: length of a cache line.
    kept_bytes: so much of what loops read is still in L2 when they read it again.
    """

    rounding: bool
    fused: bool
    half: bool
    brain: bool
    wide: bool
    masked_registers: str
    parts_stored: bool
    vector_bytes: int
    line_bytes: int
    kept_bytes: int


def features_of(target: Target, flushed: bool) -> ProcessorFeatures:
    """The features of a CPU target.

    ``flushed``: denormal numbers count as 0 in what is emitted, whatever the state of the thread.
    """
    known = target.has
    neon = "neon" in known
    return ProcessorFeatures(
        rounding=neon or bool(known & {"sse4.1", "avx", "avx2", "avx512f"}),
        fused=neon or bool(known & {"fma", "avx512f"}),
        half=neon or bool(known & {"f16c", "avx512f"}),
        brain=flushed and known.issuperset(("avx512bf16", "avx512vl")),
        wide="avx512f" in known and target.lanes(4) == REGISTER_LANES,
        masked_registers="v" if "avx512f" in known else "x" if "avx2" in known else "",
        parts_stored="avx512f" not in known,
        vector_bytes=target.vector_bytes,
        line_bytes=target.cache_line_bytes,
        kept_bytes=target.l2_bytes // 2,
    )
