"""Where every value lives in one static block of memory, decided before anything runs.

Values whose lifetimes do not overlap share bytes.  Offsets are assigned largest value first, each
in a gap that is free during its whole lifetime.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.errors import AssemblyError
from codegen.kernel import BUFFER_ALIGNMENT

# An arena in the order of threads is worth some more memory, which is little beside the constants.
_MOST_GROWTH: Final = 1.25

Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """A value that needs memory.

    Attributes:
        name: unique name.
        size_bytes: bytes it takes.
        first, last: first and last step, inclusive, during which the bytes must stay untouched.
    """

    name: str
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Shares:
    """Who computes values.

    Attributes:
        threads: each has a share of a value, one after the other.
        kept_bytes: of values no larger than this some is in their caches when it is used again.
    """

    threads: int
    kept_bytes: int


ONE_THREAD: Final = Shares(1, 0)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """``offsets``: bytes from the start of the arena, by name; ``size_bytes``: its size."""

    offsets: Mapping[str, int]
    size_bytes: int


def align(size_bytes: int, alignment: int = BUFFER_ALIGNMENT) -> int:
    """``size_bytes`` rounded up to a multiple of ``alignment``."""
    return -(-size_bytes // alignment) * alignment


def plan_memory(
    blocks: Iterable[Block],
    shares: Shares = ONE_THREAD,
    alignment: int = BUFFER_ALIGNMENT,
) -> MemoryPlan:
    """Assign an offset to every block, a multiple of ``alignment`` bytes.

    Thread k writes and reads the k-th share of most values.  So blocks that share bytes are placed
    about the same middle where that takes little more memory: what a thread writes next is then
    where it has written before, and not in the cache of another core.

    Args:
        blocks: the values.
        shares: who computes them.
        alignment: bytes.

    Raises:
        AssemblyError: a name is used twice.
    """
    ordered = sorted(blocks, key=lambda b: (-b.size_bytes, b.first, b.name))
    for block, following in pairwise(sorted(ordered, key=lambda b: b.name)):
        if block.name == following.name:
            raise AssemblyError(f"two values are named {block.name!r}")
    lowest = _placed(ordered, ONE_THREAD, alignment)
    if shares.threads == 1:
        return lowest
    by_threads = _placed(ordered, shares, alignment)
    most = _MOST_GROWTH * lowest.size_bytes
    return by_threads if by_threads.size_bytes <= most else lowest


def _placed(ordered: Sequence[Block], shares: Shares, alignment: int) -> MemoryPlan:
    """Blocks placed one after the other: where the arena need not grow, where threads find the most
    of their own, at the lowest offset.
    """
    offsets: dict[str, int] = {}
    arena = _Arena(len(ordered), shares, alignment)
    for block in ordered:
        offsets[block.name] = arena.add(block)
    return MemoryPlan(offsets, arena.size_bytes)


class _Arena:
    """The blocks that are placed so far."""

    def __init__(self, most: int, shares: Shares, alignment: int) -> None:
        self._shares, self._alignment = shares, alignment
        self._number = 0
        self._starts = np.zeros(most, np.int64)
        self._sizes = np.zeros(most, np.int64)
        self._lives = np.zeros((2, most), np.int64)  # first and last step
        self.size_bytes = 0

    def add(self, block: Block) -> int:
        """The offset of one more block."""
        n, length = self._number, align(block.size_bytes, self._alignment)
        starts, sizes, (first, last) = self._starts[:n], self._sizes[:n], self._lives[:, :n]
        meets = (first <= block.last) & (block.first <= last)
        gaps = self._gaps(starts[meets], sizes[meets], length)
        kept = self._shares.kept_bytes if length <= self._shares.kept_bytes else 0
        near = ~meets & (sizes <= kept)
        apart = starts[near], sizes[near]
        offset = min(
            self._candidates(length, gaps, *apart),
            key=lambda start: (
                max(start + length - self.size_bytes, 0),
                self._foreign_bytes(start, length, *apart),
                start,
            ),
        )
        self._number += 1
        self._starts[n], self._sizes[n] = offset, length
        self._lives[:, n] = block.first, block.last
        self.size_bytes = max(self.size_bytes, offset + length)
        return offset

    def _gaps(self, starts: Offsets, sizes: Offsets, length: int) -> list[tuple[int, int | None]]:
        """(start, end) of what is free while a block lives and large enough; the last is open."""
        found: list[tuple[int, int | None]] = []
        free = 0
        for n in np.argsort(starts, kind="stable"):
            if free + length <= starts[n]:
                found.append((free, int(starts[n])))
            free = max(free, int(starts[n] + sizes[n]))
        return [*found, (free, None)]

    def _candidates(
        self,
        length: int,
        gaps: Sequence[tuple[int, int | None]],
        starts: Offsets,
        sizes: Offsets,
    ) -> set[int]:
        """The starts of the gaps, and where the middle is that of a block that lives before or
        after.
        """
        found = {start for start, _ in gaps}
        centred = np.unique(starts + (sizes - length) // 2 // self._alignment * self._alignment)
        for start, end in gaps:
            inside = centred >= start
            if end is not None:
                inside &= centred + length <= end
            found.update(centred[inside].tolist())
        return found

    def _foreign_bytes(self, start: int, length: int, starts: Offsets, sizes: Offsets) -> int:
        """Bytes of a thread's share of a block that are in another's share of other blocks."""
        threads = self._shares.threads
        shared = _overlap(start, start + length, starts, starts + sizes)
        for k in range(threads):
            (low, high) = (start + length * part // threads for part in (k, k + 1))
            (lows, highs) = (starts + sizes * part // threads for part in (k, k + 1))
            shared = shared - _overlap(low, high, lows, highs)
        return int(shared.sum())


def _overlap(start: int, end: int, starts: Offsets, ends: Offsets) -> Offsets:
    common: Offsets = np.maximum(np.minimum(end, ends) - np.maximum(start, starts), 0)
    return common
