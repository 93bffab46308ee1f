"""Where every value lives in one static block of memory, decided before anything runs.

Values whose lifetimes do not overlap share bytes.  Offsets are assigned largest value first, each
to the lowest gap that is free during its whole lifetime.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autosched.runtime.errors import AssemblyError
from codegen.kernel import BUFFER_ALIGNMENT


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

    def overlaps(self, other: Block) -> bool:
        """Whether both must exist during some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """``offsets``: bytes from the start of the arena, by name; ``size_bytes``: its size."""

    offsets: Mapping[str, int]
    size_bytes: int


def align(size_bytes: int, alignment: int = BUFFER_ALIGNMENT) -> int:
    """``size_bytes`` rounded up to a multiple of ``alignment``."""
    return -(-size_bytes // alignment) * alignment


def plan_memory(blocks: Iterable[Block], alignment: int = BUFFER_ALIGNMENT) -> MemoryPlan:
    """Assign an offset to every block, a multiple of ``alignment`` bytes.

    Raises AssemblyError when a name is used twice.
    """
    offsets: dict[str, int] = {}
    placed: list[tuple[int, Block]] = []
    for block in sorted(blocks, key=lambda b: (-b.size_bytes, b.first, b.name)):
        if block.name in offsets:
            raise AssemblyError(f"two values are named {block.name!r}")
        offsets[block.name] = _lowest_gap(block, placed, alignment)
        placed.append((offsets[block.name], block))
    size = max((offset + align(block.size_bytes, alignment) for offset, block in placed), default=0)
    return MemoryPlan(offsets, size)


def _lowest_gap(block: Block, placed: list[tuple[int, Block]], alignment: int) -> int:
    """The lowest offset at which ``block`` meets no placed block that lives at the same time."""
    busy = sorted(
        (offset, offset + align(other.size_bytes, alignment))
        for offset, other in placed
        if other.overlaps(block)
    )
    candidate = 0
    for start, end in busy:
        if candidate + block.size_bytes <= start:
            break
        candidate = max(candidate, end)
    return candidate
