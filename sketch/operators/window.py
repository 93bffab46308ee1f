"""Sliding windows over the spatial dimensions of a tensor: sizes and bounds tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sketch.analysis.access import affine_index, interval_of
from sketch.errors import ExpressionError
from sketch.lang.expr import Expr
from sketch.lang.functions import all_of

Pair = int | Sequence[int]
Sides = tuple[tuple[int, ...], tuple[int, ...]]


def as_tuple(value: Pair, rank: int, what: str) -> tuple[int, ...]:
    """``v`` -> ``(v, v, ...)``; raises ExpressionError unless 1 or ``rank`` positive integers
    are given.
    """
    parts = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(parts) != rank or any(part < 1 for part in parts):
        raise ExpressionError(
            f"{what} must be a positive integer, or one for each of {rank} dimensions, "
            f"got {value!r}"
        )
    return parts


def as_sides(value: Pair, rank: int) -> Sides:
    """``p``, one for each dimension, or all low sides and then all high sides -> (low, high).

    Raises:
        ExpressionError: another count of numbers, or a negative one.
    """
    parts = (value,) * (2 * rank) if isinstance(value, int) else tuple(value)
    if len(parts) == rank:
        parts = (*parts, *parts)
    if len(parts) != 2 * rank or any(part < 0 for part in parts):
        raise ExpressionError(
            f"padding must be p, one for each of {rank} dimensions, or all low sides and then all "
            f"high sides, all >= 0, got {value!r}"
        )
    return parts[:rank], parts[rank:]


def as_pair(value: Pair, what: str) -> tuple[int, int]:
    """``as_tuple`` of two dimensions."""
    height, width = as_tuple(value, 2, what)
    return height, width


def as_padding(value: Pair) -> tuple[int, int, int, int]:
    """``p``, ``(h, w)`` or ``(top, left, bottom, right)`` -> (top, left, bottom, right)."""
    (top, left), (bottom, right) = as_sides(value, 2)
    return top, left, bottom, right


@dataclass(frozen=True, slots=True)
class Window:
    """One dimension: window ``kernel`` (``dilation`` apart) moved by ``stride`` over ``extent``."""

    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def reach(self) -> int:
        """Distance from the first to the last tap, plus one."""
        return (self.kernel - 1) * self.dilation + 1

    def positions(self, where: str, ceil_mode: bool = False) -> int:
        """Number of windows; with ``ceil_mode`` the last may hang over, but starts inside.

        Raises:
            ExpressionError: no window fits.
        """
        room = self.extent + self.before + self.after - self.reach
        if room < 0:
            raise ExpressionError(
                f"a window of {self.reach} does not fit into {self.extent} elements "
                f"padded by {self.before} and {self.after}",
                where,
            )
        if not ceil_mode:
            return room // self.stride + 1
        count = -(-room // self.stride) + 1
        return count - 1 if (count - 1) * self.stride >= self.extent + self.before else count

    def index(self, position: Expr, tap: Expr) -> Expr:
        """Input index of a tap; negative or too large inside the padding."""
        return position * self.stride + tap * self.dilation - self.before


def inside(*checks: tuple[Expr, int]) -> Expr | None:
    """The condition that each (index, extent) is in range; None if it always is.

    Only bounds that can be violated appear.
    """
    conditions: list[Expr] = []
    for index, extent in checks:
        form = affine_index(index)
        low, high = (-1, extent) if form is None else interval_of(form)
        if low < 0:
            conditions.append(index >= 0)
        if high >= extent:
            conditions.append(index < extent)
    return all_of(*conditions) if conditions else None
