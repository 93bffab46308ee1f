"""How the operands and the results of a tensor unit are spread over the threads that compute on it.

An axis is cut into parts, as loops are: a value is the sum of its parts' values, and its place the
sum of theirs.  There is a place in a thread's registers, and the thread itself (its lane).

    lhs of m16n8k16, halves:   m = 8*a + g,  k = 8*b + 2*t + p      a, b, p in 0..2, g in 0..8,
                               lane 4*g + t,  register a + 2*b,  half p of it        t in 0..4
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final, Literal

Home = Literal["lane", "register", "pack"]
UnitAxis = Literal["m", "n", "k"]

WARP: Final = 32
REGISTER_BYTES: Final = 4
ROW_BYTES: Final = 128
"""Of an operand in shared memory: its terms that lie together, in pieces of 16 bytes of which those
of each 8 rows change places."""


@dataclass(frozen=True, slots=True)
class FragmentPart:
    """``extent`` values of an axis, ``stride`` apart, in homes that are ``step`` apart.

    Attributes:
        axis: m, n or k of the unit.
        extent: how many there are.
        stride: from one value to the next.
        home: "lane": they are in other threads; "register": in other registers of a thread;
            "pack": in other parts of a register.
        step: from home to home.
    """

    axis: UnitAxis
    extent: int
    stride: int
    home: Home
    step: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """Where the elements of one operand, or the results, are; without parts in shared memory."""

    parts: tuple[FragmentPart, ...]

    def along(self, axis: UnitAxis) -> tuple[FragmentPart, ...]:
        """The parts of an axis, the largest stride first."""
        return tuple(
            sorted((p for p in self.parts if p.axis == axis), key=lambda p: p.stride, reverse=True)
        )

    @property
    def registers(self) -> int:
        """How many a thread has of it."""
        return self._count("register")

    @property
    def lanes(self) -> int:
        """Over how many threads it is spread."""
        return self._count("lane")

    def _count(self, home: Home) -> int:
        return prod(part.extent for part in self.parts if part.home == home)

    def places(self) -> dict[tuple[int, int, int], tuple[int, int]]:
        """(lane, register, place in the register) to the element, by its two axes in the order in
        which they first appear.
        """
        axes = tuple(dict.fromkeys(part.axis for part in self.parts))
        found: dict[tuple[int, int, int], tuple[int, int]] = {}
        for values in product(*(range(part.extent) for part in self.parts)):
            home = {"lane": 0, "register": 0, "pack": 0}
            element = dict.fromkeys(axes, 0)
            for part, value in zip(self.parts, values, strict=True):
                home[part.home] += part.step * value
                element[part.axis] += part.stride * value
            first, second = (element[axis] for axis in axes)
            found[home["lane"], home["register"], home["pack"]] = first, second
        return found


def warp_fragments(pack: int, groups: int) -> tuple[Fragment, Fragment, Fragment]:
    """The operands and results of ``mma.sync.m16n8``: PTX ISA, "Matrix Fragments for mma".

    Args:
        pack: elements of an operand in a register.
        groups: registers that hold the terms of one row: each has those of four lanes.
    """
    span = 4 * pack
    terms = (
        FragmentPart("k", groups, span, "register", 2),
        FragmentPart("k", 4, pack, "lane", 1),
        FragmentPart("k", pack, 1, "pack", 1),
    )
    lhs = Fragment(
        (FragmentPart("m", 2, 8, "register", 1), FragmentPart("m", 8, 1, "lane", 4), *terms)
    )
    columns = (FragmentPart("k", groups, span, "register", 1), *terms[1:])
    rhs = Fragment((FragmentPart("n", 8, 1, "lane", 4), *columns))
    acc = Fragment(
        (
            FragmentPart("m", 2, 8, "register", 2),
            FragmentPart("m", 8, 1, "lane", 4),
            FragmentPart("n", 4, 2, "lane", 1),
            FragmentPart("n", 2, 1, "register", 1),
        )
    )
    return lhs, rhs, acc


def group_fragments(columns: int) -> tuple[Fragment, Fragment, Fragment]:
    """The operands and results of ``wgmma.m64n<columns>``, which four warps compute together: PTX
    ISA, "Asynchronous wgmma".  A warp has 16 rows of the results; operands are in shared memory.
    """
    shared = Fragment(())
    parts = (
        FragmentPart("m", 4, 16, "lane", WARP),
        FragmentPart("m", 2, 8, "register", 2),
        FragmentPart("m", 8, 1, "lane", 4),
        FragmentPart("n", columns // 8, 8, "register", 4),
        FragmentPart("n", 4, 2, "lane", 1),
        FragmentPart("n", 2, 1, "register", 1),
    )
    return shared, shared, Fragment(tuple(part for part in parts if part.extent > 1))
