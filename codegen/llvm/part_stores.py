"""Stores of some lanes of a vector: the lanes that are stored as vectors of their own.

AMD's processors without AVX-512 run a masked store as a sequence of microcode: 4 ns on Zen 3, where
two or three plain stores of parts take 0.6 to 0.9 ns.  Without masked stores LLVM would store lane
by lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from codegen.llvm.values import vector_type
from codegen.llvm.writer import Writer


class StoredVector(NamedTuple):
    """``width`` elements of type ``scalar``, ``size`` bytes each, and where they go."""

    scalar: str
    size: int
    width: int
    ref: str
    pointer: str


def lanes_of(mask: str | None) -> list[bool] | None:
    """The lanes of a literal mask; None where it is known at run time only."""
    if mask is None or not mask.startswith("<"):
        return None
    return [lane == "i1 true" for lane in mask.strip("<>").split(", ")]


def parts_of(lanes: list[bool], most: int) -> Iterator[tuple[int, int]]:
    """The first lane and the length of parts that cover the lanes.

    Args:
        lanes: which lanes are stored.
        most: lanes of a vector register.

    Yields:
        parts of a power of two of lanes, the longest of a run first.
    """
    for stored, run in groupby(enumerate(lanes), key=lambda numbered: numbered[1]):
        numbers = [number for number, _ in run]
        first, rest = numbers[0], len(numbers)
        while stored and rest:
            length = min(most, 1 << rest.bit_length() - 1)
            yield first, length
            first, rest = first + length, rest - length


def store_part(writer: Writer, stored: StoredVector, first: int, length: int) -> None:
    """Store ``length`` lanes from lane ``first`` on.

    A single lane is taken out of the vector: where that was truncated just before, LLVM would store
    the lane of a masked store as wide as it had been.

    Args:
        writer: of the code.
        stored: the vector.
        first: lane that the pointer of the part belongs to.
        length: lanes.
    """
    kind = vector_type(stored.scalar, stored.width)
    if length == 1:
        text = f"extractelement {kind} {stored.ref}, i64 {first}"
    else:
        order = ", ".join(f"i32 {lane}" for lane in range(first, first + length))
        text = f"shufflevector {kind} {stored.ref}, {kind} poison, <{length} x i32> <{order}>"
    value = writer.emit_free(text)
    step = f"getelementptr i8, ptr {stored.pointer}, i64 {first * stored.size}"
    place = writer.emit_free(step) if first else stored.pointer
    part = vector_type(stored.scalar, 0 if length == 1 else length)
    writer.statement(f"store {part} {value}, ptr {place}, align {stored.size}")
