"""Fetches, for writing, of the lines that a claim names."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from codegen.llvm.addresses import Address
from codegen.llvm.flow import Flow
from codegen.llvm.values import Form
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Claim

if TYPE_CHECKING:
    from codegen.llvm.memory import Memory


def emit_claim(claim: Claim, memory: Memory, flow: Flow) -> None:
    """What one turn fetches.  A line outside of the output does no harm: no fetch fails."""
    turns = prod(extent for _, extent, _ in claim.turns)
    trips = prod(count for count, _ in claim.trips)
    each = -(-trips // turns)
    number = _number(claim, memory)
    for part in range(each):
        trip = number
        if each > 1:
            moved = memory.writer.emit_free(f"mul nsw i64 {number}, {each}")
            trip = memory.writer.emit_free(f"add nsw i64 {moved}, {part}")
        if turns * each == trips:
            _fetch(claim, memory, trip)
            continue
        with flow.when(memory.writer.emit_free(f"icmp slt i64 {trip}, {trips}")):
            _fetch(claim, memory, trip)


def _number(claim: Claim, memory: Memory) -> str:
    """Which turn it is."""
    writer, scope = memory.writer, memory.scope
    total = "0"
    for var, extent, stride in claim.turns:
        known = scope.dynamic.get(var)
        value = str(scope.static[var]) if known is None else known.ref
        trip = writer.emit_free(f"sdiv exact i64 {value}, {stride}") if stride > 1 else value
        moved = writer.emit_free(f"mul nsw i64 {total}, {extent}")
        total = writer.emit_free(f"add nsw i64 {moved}, {trip}")
    return total


def _fetch(claim: Claim, memory: Memory, trip: str) -> None:
    """The lines of one trip of the loops that will write them."""
    writer, size = memory.writer, size_of(claim.buffer.dtype)
    form = memory.scope.resolve(claim.start, size)
    base = memory.pointer(memory.address(claim.buffer, Form(form.dynamic, 0, form.const), None))
    rest, offset = trip, "0"
    for count, step in reversed(claim.trips):
        digit = writer.emit_free(f"urem i64 {rest}, {count}")
        rest = writer.emit_free(f"udiv i64 {rest}, {count}")
        moved = writer.emit_free(f"mul nsw i64 {digit}, {step * size}")
        offset = writer.emit_free(f"add nsw i64 {offset}, {moved}")
    first = writer.emit_free(f"getelementptr i8, ptr {base}, i64 {offset}")
    for line in claim.lines:
        memory.prefetches.line(Address(first, line * size, 0, None), 0, hint=3, write=True)
