"""Reshaping a value that is stored in another order, with as little movement as possible.

A reshape splits dimensions and merges neighbours.  A dimension that is only split can be split
where it lies; dimensions that are merged must lie next to each other, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.graph.ops.base import Shape

Permutation = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Regrouping:
    """``reshape(transpose(stored, order), shape)`` holds the reshaped value.

    The value itself is ``transpose`` of that by ``due``.
    """

    order: Permutation
    shape: Shape
    due: Permutation


@dataclass(frozen=True, slots=True)
class Group:
    """A shortest run of dimensions before and after, with one product of extents."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def regroup(due: Permutation, before: Shape, after: Shape) -> Regrouping:
    """How to reshape a value from ``before`` to ``after`` that is ``transpose(stored, due)``.

    Groups stay in the order in which their last dimensions are stored, so that what is contiguous
    in memory remains so.
    """

    def place(group: Group) -> int:
        wide = [d for d in group.before if before[d] > 1] or group.before
        return due[wide[-1]] if wide else len(due)

    groups = sorted(matching_groups(before, after), key=place)
    order = tuple(due[d] for group in groups for d in group.before)
    targets = [d for group in groups for d in group.after]
    position = {d: index for index, d in enumerate(targets)}
    return Regrouping(
        order,
        tuple(after[d] for d in targets),
        tuple(position[d] for d in range(len(after))),
    )


def matching_groups(before: Sequence[int], after: Sequence[int]) -> list[Group]:
    """The groups of a reshape, in order; together they have all dimensions."""
    groups: list[Group] = []
    start, end = 0, 0
    while start < len(before):
        taken, stop = start + 1, end
        old, new = before[start], 1
        while old != new:
            if new < old:
                new *= after[stop]
                stop += 1
            else:
                old *= before[taken]
                taken += 1
        groups.append(Group(tuple(range(start, taken)), tuple(range(end, stop))))
        start, end = taken, stop
    if end < len(after):  # extents of 1 at the end
        groups.append(Group((), tuple(range(end, len(after)))))
    return groups
