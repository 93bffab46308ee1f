"""Prefetches: what is read later is fetched into a cache with what is read now."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from codegen.llvm.addresses import Address
from codegen.llvm.features import ProcessorFeatures
from codegen.llvm.scope import LoopScope
from codegen.llvm.turns import turns_of
from codegen.llvm.values import Form
from codegen.llvm.writer import Writer
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Buffer


class Pointers(Protocol):
    """What prefetches need of a function's memory accesses."""

    writer: Writer
    scope: LoopScope
    features: ProcessorFeatures
    bases: dict[Buffer, str]

    def pointer(self, address: Address) -> str: ...
    def cached(self, key: Hashable, text: str) -> str: ...
    def begins(self, key: Hashable) -> bool: ...


class Prefetches:
    """Those of one function."""

    def __init__(self, memory: Pointers) -> None:
        self._memory = memory
        self._since_barrier = False
        self._ahead: dict[Buffer, int] = {}  # in the loops around, in elements

    @contextmanager
    def inside(self, fetch: Sequence[tuple[Buffer, int]]) -> Iterator[None]:
        """Inside a loop that fetches what is read later of these buffers."""
        before = self._ahead
        self._ahead = {**before, **dict(fetch)}
        yield
        self._ahead = before

    def with_load(self, buffer: Buffer, form: Form, address: Address) -> None:
        """Fetch what a vector that is read calls for.

        Args:
            buffer: that is read.
            form: offset in bytes.
            address: of what is read.
        """
        if buffer.ahead:
            self.add(buffer, form, address)
        elif buffer in self._ahead:
            distance = self._ahead[buffer] * size_of(buffer.dtype)
            self.line(address, distance, hint=3)

    def add(self, buffer: Buffer, form: Form, address: Address) -> None:
        """Fetch what lies ``buffer.ahead`` elements behind what is read.

        Args:
            buffer: that has it.
            form: offset in bytes of what is read.
            address: of what is read.
        """
        memory, scope, features = self._memory, self._memory.scope, self._memory.features
        size = size_of(buffer.dtype)
        distance, large = int(buffer.ahead) * size, int(buffer.size) * size > features.kept_bytes
        turns = turns_of(scope, form.dynamic, features) if large else None
        if turns is None:
            self.line(address, distance)
            return
        base = scope.pointer(buffer, memory.bases[buffer], turns.terms)
        offset = turns.offset(form.const, distance)
        if memory.begins(("ahead", base, offset // features.line_bytes)):
            start = turns.start(scope, memory.writer)
            moved = f"getelementptr i8, ptr {base}, i64 {start}"
            moved = memory.cached(("turn", base, start), moved)
            self.line(Address(moved, offset, 0, None), 0)

    def line(self, address: Address, distance: int, hint: int = 2, write: bool = False) -> None:
        """Fetch the line ``distance`` bytes behind an address, once in a basic block.

        Where lines begin is not known.  Of two vectors in as much as a line, one is fetched: a walk
        over contiguous ones fetches the line of the other with its next step.

        Args:
            address: of any lane.
            distance: bytes.
            hint: LLVM's locality: 3 for the first cache, 2 for the second.
            write: take it from other cores, too.
        """
        memory, const = self._memory, address.const + distance
        if not memory.begins(
            ("line", address.base, const // memory.features.line_bytes, hint, write)
        ):
            return
        memory.writer.declare("llvm.prefetch.p0", "void {}(ptr, i32, i32, i32)")
        ahead = memory.pointer(address._replace(const=const, offsets=None))
        how = f"i32 {int(write)}, i32 {hint}, i32 1"
        memory.writer.statement(f"call void @llvm.prefetch.p0(ptr {ahead}, {how})")
        self._since_barrier = True

    def keep_apart(self) -> None:
        """Where lines are fetched, keep LLVM from moving loads from here to before that.

        It would load the operands of the next trip of an unrolled loop with those of this one, and
        spill accumulators for them where a tile fills the registers.
        """
        if self._since_barrier:
            self._since_barrier = False
            self._memory.writer.statement('call void asm sideeffect "", "~{memory}"()')
