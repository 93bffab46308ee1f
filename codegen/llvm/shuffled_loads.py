"""Loads whose lanes lie in a known pattern: one vector that holds all of them, shuffled.

lanes 0, 0, 1, 1, 2, 2, ... of x     ->    1 register of x, 1 shuffle
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, Protocol

from codegen.llvm.addresses import Address, Guard
from codegen.llvm.part_stores import lanes_of
from codegen.llvm.scope import LoopScope
from codegen.llvm.values import SSA_TYPES, Form, SsaValue, mask_literal, vector_type
from codegen.llvm.writer import Writer
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Buffer

_MOST_BYTES: Final = 32  # that are shuffled as bytes


class Elements(Protocol):
    """What shuffled loads need of a function's memory accesses."""

    writer: Writer

    @property
    def scope(self) -> LoopScope: ...

    def address(self, buffer: Buffer, form: Form, extra: SsaValue | None) -> Address: ...

    def load(
        self, buffer: Buffer, form: Form, extra: SsaValue | None, guard: Guard
    ) -> SsaValue: ...

    def load_at(self, buffer: Buffer, address: Address, guard: Guard) -> SsaValue: ...


def shuffled_load(
    memory: Elements, buffer: Buffer, form: Form, extra: SsaValue | None, guard: Guard
) -> SsaValue:
    """The elements of a pattern, zeros where the guard's mask is false.

    Args:
        memory: emits the loads.
        buffer: what is read.
        form: offset in bytes, with the pattern.
        extra: part of the offset that is known at run time only, the same in all lanes.
        guard: of the access.
    """
    size, width = size_of(buffer.dtype), memory.scope.width
    used = [True] * width if guard.mask is None else list(lanes_of(guard.mask) or ())
    read = [step for step, lane in zip(form.pattern, used, strict=False) if lane]
    if not read or max(read) - min(read) >= width * size:
        offsets = ", ".join(f"i64 {step}" for step in form.pattern)
        address = memory.address(buffer, form._replace(pattern=()), extra)
        return memory.load_at(buffer, address._replace(offsets=f"<{offsets}>"), guard)
    start, reach = form.const + min(read), max(read) - min(read) + size
    before, end = 0, reach
    if extra is None and all(used):
        before, end = _window(memory.scope, buffer, form._replace(const=start), reach)
    if end < width * size:
        guard = replace(guard, mask=mask_literal(tuple(n * size < end for n in range(width))))
    elif guard.mask is not None:
        guard = replace(guard, mask=None)
    block = memory.load(buffer, Form(form.dynamic, size, start - before), extra, guard)
    places = [(form.const + step - start + before) // size for step in form.pattern]
    order = ", ".join(
        f"i32 {place if lane else width}" for place, lane in zip(places, used, strict=True)
    )
    return SsaValue(_shuffled(memory.writer, block, order), buffer.dtype, width)


def _shuffled(writer: Writer, block: SsaValue, order: str) -> str:
    """The elements of a vector, and zeros behind it, in some order.

    Bytes of more than half of the longest register move as integers of 16 bits: LLVM 22 does not
    come to an end with shuffles of as many bytes for AVX-512.
    """
    width, scalar = block.width, SSA_TYPES[block.dtype]
    wide = scalar == "i8" and width > _MOST_BYTES
    kind = vector_type("i16" if wide else scalar, width)
    ref = block.ref
    if wide:
        ref = writer.emit_free(f"zext {vector_type(scalar, width)} {ref} to {kind}")
    text = f"shufflevector {kind} {ref}, {kind} zeroinitializer, <{width} x i32> <{order}>"
    found = writer.emit_free(text)
    if wide:
        found = writer.emit_free(f"trunc {kind} {found} to {vector_type(scalar, width)}")
    return found


def _window(scope: LoopScope, buffer: Buffer, form: Form, reach: int) -> tuple[int, int]:
    """A vector that holds ``reach`` bytes from ``form`` on: how far before it begins, and how many
    of its bytes are in the buffer.

    It begins and ends at multiples of what all loops around step by, where the buffer does, so
    that all of it is in the buffer, and elements that unrolled copies read are in one vector.
    """
    size = size_of(buffer.dtype)
    span = scope.width * size
    grain = math.gcd(span, *(c * scope.dynamic[var].step for var, c in form.dynamic))
    if int(buffer.size) * size % grain:
        grain = size
    before = form.const % grain
    end = -(-(before + reach) // grain) * grain
    return (before, end) if end <= span else (0, reach)
