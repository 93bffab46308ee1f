"""What kernels do with denormal numbers: those whose size is below 1.2e-38 (2.2e-308 in float64).

Each operation on one costs a CPU a hundred cycles or more.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Denormals = Literal["flush", "keep"]
"""They count as 0 and become 0, or are computed with as IEEE 754 says."""

DENORMALS: Final[tuple[Denormals, ...]] = get_args(Denormals)


def flush_flag(denormals: Denormals) -> int:
    """What native code takes for it."""
    return int(denormals == "flush")
