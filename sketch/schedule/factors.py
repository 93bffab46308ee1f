"""Candidate trip counts for a tile level."""

from functools import lru_cache
from typing import Final

# Every count up to here is offered; above it only counts that divide the extent or split it into
# that few nearly equal parts, which keeps waste at the last tile small.
_DENSE: Final = 32


@lru_cache(maxsize=4096)
def power_choices(extent: int, limit: int | None = None) -> tuple[int, ...]:
    """Powers of two up to ``extent`` (and ``limit``), and the extent itself.

    For GPUs: threads come in warps, shared memory in banks, both in powers of two.
    """
    top = extent if limit is None else min(extent, limit)
    powers = {1 << n for n in range(top.bit_length()) if 1 << n <= top}
    return tuple(sorted(powers | ({extent} if extent <= top else set())))


@lru_cache(maxsize=4096)
def tile_choices(extent: int, limit: int | None = None) -> tuple[int, ...]:
    """Ascending trip counts to try for one tile level of an axis of ``extent``.

    All of 1..32, all divisors, and ``ceil(extent / parts)`` for up to 32 parts; at most ``limit``.
    """
    top = extent if limit is None else min(extent, limit)
    divisors = {d for d in range(1, int(extent**0.5) + 1) if extent % d == 0}
    candidates = set(range(1, _DENSE + 1)) | divisors | {extent // d for d in divisors}
    candidates |= {-(-extent // parts) for parts in range(1, _DENSE + 1)}
    return tuple(sorted(c for c in candidates if 1 <= c <= max(1, top)))
