"""What steps call the stages and axes that they add: after what those come from.

Nothing is read from such a name; what a stage was made by is data (``StagePlan.roles``).
"""

from __future__ import annotations

from collections.abc import Collection

from sketch.lang.fresh_names import fresh_name


def local_name(stage: str, taken: Collection[str]) -> str:
    """``C.local``: the private tile that ``stage`` is accumulated in."""
    return fresh_name(f"{stage}.local", taken)


def partial_name(stage: str, taken: Collection[str]) -> str:
    """``C.rf``: the partial reductions of ``stage``."""
    return fresh_name(f"{stage}.rf", taken)


def cached_name(tensor: str, consumer: str, taken: Collection[str]) -> str:
    """``A.cache`` for the first copy of ``tensor``, ``A.C.cache`` for another consumer's."""
    first = f"{tensor}.cache"
    return first if first not in taken else fresh_name(f"{tensor}.{consumer}.cache", taken)


def cache_axis(dim: int) -> str:
    """``d0``: an axis of a copy, by the dimension of the tensor."""
    return f"d{dim}"


def part_names(axis: str, taken: Collection[str]) -> tuple[str, str]:
    """``k_part`` and ``k_chunk``: which part of ``axis``, and where within it."""
    return fresh_name(f"{axis}_part", taken), fresh_name(f"{axis}_chunk", taken)
