"""Where the model of a release lies: what ``autosched costmodel train`` wrote, in the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sketch.population.feasible import SIMD_CPU, hardware_of

if TYPE_CHECKING:
    from sketch.target.target import Target

SHIPPED: Final = Path(__file__).with_name("shipped.json")
"""A release may come without it."""

MOST_BYTES: Final = 3_000_000
"""Of the file."""


def shipped_for(target: Target) -> Path | None:
    """The model's file, where it knows kernels like those of a target; None: there is none.

    It was trained on kernels of CPUs.
    """
    return SHIPPED if SHIPPED.exists() and hardware_of(target) is SIMD_CPU else None
