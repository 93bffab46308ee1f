"""What the threads of a warp do together."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.support.ptx.values import as_type

Bits = NDArray[Any]
Mask = NDArray[np.bool_]
_WARP: Final = 32


class DivergenceError(AssertionError):
    """Threads wait for others that never come, or exchange values with them."""


def _members(mask: Mask, threads: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of every lane: its place in the warp, and the lane with which its warp starts."""
    thread = np.arange(len(mask)) % threads
    place = thread % _WARP
    return place, np.arange(len(mask)) - place


def _check_members(named: Bits, mask: Mask, threads: int) -> None:
    """Every thread that the member mask names must take part, and no other.

    Raises DivergenceError.
    """
    place, start = _members(mask, threads)
    unnamed = mask & ((as_type(named, "u32") >> place.astype(np.uint32)) & 1 == 0)
    if unnamed.any():
        lane = int(np.flatnonzero(unnamed)[0])
        raise DivergenceError(f"lane {lane} exchanges values, but is no member")
    size = np.minimum(threads - (np.arange(len(mask)) % threads - place), _WARP)
    for member in range(_WARP):
        wanted = mask & ((as_type(named, "u32") >> np.uint32(member)) & 1 == 1) & (member < size)
        missing = wanted & ~mask[np.minimum(start + member, len(mask) - 1)]
        if missing.any():
            lane = int(np.flatnonzero(missing)[0])
            raise DivergenceError(
                f"lane {lane} exchanges values with thread {member}, which is elsewhere"
            )


def shuffled(
    modifiers: tuple[str, ...], values: list[Bits], mask: Mask, threads: int
) -> tuple[Bits, Mask]:
    """``shfl.sync``: the value of another thread, and whether there is one.

    Raises DivergenceError where a member of the warp does not take part, or has no value.
    """
    source, offset, clamp, named = values
    _check_members(named, mask, threads)
    place, start = _members(mask, threads)
    by = as_type(offset, "u32").astype(np.int64) & 31
    limit = as_type(clamp, "u32").astype(np.int64)
    segment = (limit >> 8) & 31
    highest = (place & segment) | (limit & 31 & ~segment)
    lowest = place & segment
    mode = next(name for name in modifiers if name in ("up", "down", "bfly", "idx"))
    other = {
        "up": place - by, "down": place + by, "bfly": place ^ by,
        "idx": lowest | (by & ~segment),
    }[mode]  # fmt: skip
    valid = other >= highest if mode == "up" else other <= highest
    chosen = np.where(valid, start + other, start + place)
    inside = (chosen < len(mask)) & (chosen // threads == np.arange(len(mask)) // threads)
    if (mask & valid & ~inside).any():
        raise DivergenceError("a shuffle reads a thread that the block does not have")
    return source[np.where(inside, chosen, np.arange(len(mask)))], valid


def ballot(modifiers: tuple[str, ...], values: list[Bits], mask: Mask, threads: int) -> Bits:
    """``vote.sync.ballot.b32``, ``any``, ``all``, and ``activemask``."""
    place, start = _members(mask, threads)
    votes = mask if not values else mask & values[0].astype(bool)
    total = np.zeros(len(mask), np.uint32)
    np.bitwise_or.at(total, start, votes.astype(np.uint32) << place.astype(np.uint32))
    active = np.zeros(len(mask), np.uint32)
    np.bitwise_or.at(active, start, mask.astype(np.uint32) << place.astype(np.uint32))
    bits, present = total[start], active[start]
    if "any" in modifiers:
        return bits != 0
    return bits == present if "all" in modifiers else bits
