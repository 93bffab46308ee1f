"""Where an access goes, and when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """When the current expression is really evaluated: a scalar condition and a lane mask.

    ``spread`` is the condition once more, for all lanes, where that has been written already.
    """

    condition: str | None = None
    mask: str | None = None
    spread: str | None = None


ALWAYS = Guard()


class Address(NamedTuple):
    """``base + bytes``; ``lane`` bytes from lane to lane, or a vector of byte ``offsets``."""

    base: str
    const: int
    lane: int
    offsets: str | None
    align: int = 0  # 0: that of what lies there


def lane_constants(step: int, width: int) -> str:
    """``<0, step, 2*step, ...>`` as an i64 vector."""
    return "<" + ", ".join(f"i64 {step * lane}" for lane in range(width)) + ">"
