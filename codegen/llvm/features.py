"""What a CPU's instruction set can do by itself, as far as the emitter chooses by it."""

from __future__ import annotations

from dataclasses import dataclass

from sketch.target import Target


@dataclass(frozen=True, slots=True)
class Features:
    """Attributes:
    rounding: instructions for floor, ceil, trunc and round.
    half: instructions between float16 and float32.
    mask_registers: registers for lane masks, under which any instruction can execute.
    """

    rounding: bool
    half: bool
    mask_registers: bool


def features_of(target: Target) -> Features:
    """The features of a CPU target."""
    known = {part[1:] for part in target.features.split(",") if part.startswith("+")}
    neon = "neon" in known
    return Features(
        rounding=neon or bool(known & {"sse4.1", "avx", "avx2", "avx512f"}),
        half=neon or bool(known & {"f16c", "avx512f"}),
        mask_registers="avx512f" in known,
    )
