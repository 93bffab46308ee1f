"""Loads whose lanes lie a few elements apart, or go backwards: registers of neighbours, shuffled.

    lanes 0, 3, 6, ... of x     ->    3 registers of x, 2 shuffles
    lanes 9, 8, 7, ... of x     ->    1 register of x, 1 shuffle

A gather reads one element after another.  What is read lies between the elements of the first and
the last lane, so it is all in the array that these are in.
"""

from __future__ import annotations

from typing import Final, Protocol

from codegen.llvm.addresses import Address, Guard
from codegen.llvm.values import MEMORY_TYPES, mask_literal, vector_type
from codegen.llvm.writer import Writer
from sketch.lang.dtypes import size_of

_LEAST_BYTES: Final = 4  # narrower elements are shuffled by more than one instruction

# A register, and which of its elements become which lanes of the result.
_Part = tuple[str, dict[int, int]]


class Words(Protocol):
    """What strided loads need of a function's memory accesses."""

    writer: Writer

    def load_words(self, dtype: str, width: int, address: Address, guard: Guard) -> str: ...

    def reversed_mask(self, mask: str, width: int) -> str: ...


def strided_load(
    memory: Words, dtype: str, width: int, address: Address, guard: Guard
) -> str | None:
    """The lanes of ``address``, zeros where the guard's mask is false; None: a gather is better.

    Args:
        memory: emits the loads.
        dtype: of the elements.
        width: lanes.
        address: of the first lane, and bytes from lane to lane.
        guard: of the access.
    """
    size = size_of(dtype)
    apart, rest = divmod(address.lane, size)
    whole = address.offsets is None and rest == 0
    if whole and apart == -1:
        return _reversed_load(memory, dtype, width, address, guard)
    simple, lanes = whole and size >= _LEAST_BYTES, _first_lanes(guard.mask, width)
    # Log2 many shuffles of each register are cheaper than a gather while there are few of these.
    if not simple or not lanes or not 1 < apart <= width // 2:
        return None
    count = (lanes - 1) * apart + 1
    parts: list[_Part] = []
    for first in range(0, count, width):
        mask = None
        if count - first < width:
            mask = mask_literal(tuple(first + n < count for n in range(width)))
        at = Address(address.base, address.const + first * size, size, None)
        block = memory.load_words(dtype, width, at, Guard(guard.condition, mask))
        inside = range(-(-first // apart), min(lanes, -(-(first + width) // apart)))
        parts.append((block, {lane: lane * apart - first for lane in inside}))
    kind = vector_type(MEMORY_TYPES[dtype], width)
    joined = _joined(memory, kind, width, parts)
    if lanes == width:
        return joined
    masks = vector_type("i1", width)
    return memory.writer.emit_free(
        f"select {masks} {guard.mask}, {kind} {joined}, {kind} zeroinitializer"
    )


def _reversed_load(memory: Words, dtype: str, width: int, address: Address, guard: Guard) -> str:
    """Lanes that go backwards: what lies from the last to the first, in reverse order."""
    size = size_of(dtype)
    mask = None if guard.mask is None else memory.reversed_mask(guard.mask, width)
    at = Address(address.base, address.const - (width - 1) * size, size, None)
    block = memory.load_words(dtype, width, at, Guard(guard.condition, mask))
    return memory.writer.emit_free(reversed_lanes(MEMORY_TYPES[dtype], width, block))


def reversed_lanes(scalar: str, width: int, vector: str) -> str:
    """The instruction that puts the last lane of a vector first."""
    kind, order = vector_type(scalar, width), ", ".join(f"i32 {n}" for n in reversed(range(width)))
    return f"shufflevector {kind} {vector}, {kind} poison, <{width} x i32> <{order}>"


def _first_lanes(mask: str | None, width: int) -> int:
    """How many lanes a mask has, if it is known and they are the first ones; else 0."""
    if mask is None:
        return width
    if mask.startswith("%"):
        return 0
    count = mask.count("i1 true")
    return count if mask == mask_literal(tuple(n < count for n in range(width))) else 0


def _joined(memory: Words, kind: str, width: int, parts: list[_Part]) -> str:
    """The lanes of all parts in one register, two parts at a time."""
    pairs = [parts[n : n + 2] for n in range(0, len(parts), 2)]
    found: list[_Part] = []
    for pair in pairs:
        places = {
            lane: place + number * width
            for number, (_, elements) in enumerate(pair)
            for lane, place in elements.items()
        }
        if len(pair) == 1 and len(pairs) > 1:
            found.append(pair[0])
            continue
        order = [*(f"i32 {places[lane]}" for lane in sorted(places))]
        order += ["i32 poison"] * (width - len(order))
        first, second = pair[0][0], pair[1][0] if len(pair) > 1 else "poison"
        text = (
            f"shufflevector {kind} {first}, {kind} {second}, <{width} x i32> <{', '.join(order)}>"
        )
        name = memory.writer.emit_free(text)
        found.append((name, {lane: n for n, lane in enumerate(sorted(places))}))
    return found[0][0] if len(found) == 1 else _joined(memory, kind, width, found)
