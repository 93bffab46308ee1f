"""Statements on tile registers: one instruction for the loops of a tensor unit.

    tensor m, vectorized n:       tile[c, m, n] = 0               tilezero
                                  tile[c, m, n] = x[..]           tileload
                                  x[..] = tile[c, m, n]           tilestore
    tensor m, g, p, vectorized n: tile[c, m, n] += A * B          tileload (where needed), tdp

Instructions name registers by number: what is in one is a state of the thread, not a value of
LLVM's, which knows that they must stay in order.
"""

from __future__ import annotations

from typing import Final

from codegen.llvm.addresses import Address
from codegen.llvm.evaluator import ExpressionEmitter
from codegen.llvm.tile_layout import TileLayout
from codegen.llvm.unit_calls import TILE_CALLS
from codegen.llvm.values import Form
from codegen.passes.affine import flatten
from codegen.passes.tile_blocks import steps_of
from sketch.errors import LoweringError
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Buffer, BufferLoad, Index, Loop, Scope, Store
from sketch.nest.walk import store_loads

_LOAD: Final = "llvm.x86.tileloadd64"
_STORE: Final = "llvm.x86.tilestored64"
_ZERO: Final = "llvm.x86.tilezero"
_CONFIGURE: Final = "llvm.x86.ldtilecfg"
_RELEASE: Final = "llvm.x86.tilerelease"

_Cell = tuple[Buffer, int]


class TileStatements:
    """Emits the statements of one function.

    ``layouts``: for each of its buffers in registers; where all have one, the function configures
    the registers once.
    """

    def __init__(self, evaluator: ExpressionEmitter, layouts: dict[Buffer, TileLayout]) -> None:
        self.evaluator, self.layouts = evaluator, layouts
        self.writer, self.scope, self.memory = evaluator.writer, evaluator.scope, evaluator.memory
        self._numbers: dict[_Cell, int] = {}
        self._held = _Held()

    def enter(self) -> None:
        """Start a function: configure registers that all of it uses alike."""
        if len(set(self.layouts.values())) == 1:
            self._configure(next(iter(self.layouts.values())))

    def leave(self) -> None:
        """End a function: the registers are given back."""
        if self.layouts:
            self.writer.declare(_RELEASE, "void {}()")
            self.writer.statement(f"call void @{_RELEASE}()")

    def allocate(self, buffer: Buffer) -> None:
        """Results begin to live in registers."""
        self._numbers = {cell: n for cell, n in self._numbers.items() if cell[0] is not buffer}
        self._held = _Held()
        if len(set(self.layouts.values())) > 1:
            self._configure(self.layouts[buffer])

    def forget(self) -> None:
        """What operands are copies of is written anew."""
        self._held = _Held()

    def emit(self, loops: tuple[Loop, ...], store: Store) -> None:
        """One statement.

        Args:
            loops: those of the unit, from outside in.
            store: the statement.
        """
        scope = self.scope
        for loop in loops:
            scope.static[loop.var] = 0
        if store.targets[0].scope is not Scope.TILE:
            self._store(loops, store)
        elif store.reducer is not None:
            self._add(loops, store)
        else:
            self._fill(loops, store)
        for loop in loops:
            del scope.static[loop.var]

    def _configure(self, layout: TileLayout) -> None:
        content = layout.configuration()
        name = f"tiles.{content.hex()}"
        text = "".join(f"\\{byte:02X}" for byte in content)
        self.writer.define(name, f'internal constant [{len(content)} x i8] c"{text}", align 64')
        self.writer.declare(_CONFIGURE, "void {}(ptr)")
        self.writer.statement(f"call void @{_CONFIGURE}(ptr @{name})")

    def _number(self, buffer: Buffer, indices: tuple[Index, ...]) -> int:
        """The register of a result."""
        form = self.scope.resolve(flatten(buffer, indices)[0])
        known = [n for cell, n in self._numbers.items() if cell[0] is buffer]
        return self._numbers.setdefault((buffer, form.const), len(known))

    def _fill(self, loops: tuple[Loop, ...], store: Store) -> None:
        number = self._number(store.targets[0], store.indices)
        found = store_loads(store)
        if not found:
            self.writer.declare(_ZERO, "void {}(i8)")
            self.writer.statement(f"call void @{_ZERO}(i8 {number})")
            return
        self._load(number, found[0], loops[0], loops)

    def _store(self, loops: tuple[Loop, ...], store: Store) -> None:
        (value,) = store_loads(store)
        number, target = self._number(value.buffer, value.indices), store.targets[0]
        pointer, step = self._place(target, store.indices, loops[0], loops)
        self.writer.declare(_STORE, "void {}(i8, ptr, i64)")
        self.writer.statement(f"call void @{_STORE}(i8 {number}, ptr {pointer}, i64 {step})")
        if self.memory.loads.pop(target, None) is not None:
            self.memory.epoch += 1

    def _add(self, loops: tuple[Loop, ...], store: Store) -> None:
        target, (rows, groups, *_) = store.targets[0], loops
        layout = self.layouts[target]
        first, second = store_loads(store)
        lhs, rhs = (first, second) if _moves(first, rows) else (second, first)
        result = self._number(target, store.indices)
        left = self._operand(lhs, rows, loops, layout.lhs)
        right = self._operand(rhs, groups, loops, layout.rhs)
        name = TILE_CALLS[lhs.dtype, rhs.dtype]
        self.writer.declare(name, "void {}(i8, i8, i8)")
        self.writer.statement(f"call void @{name}(i8 {result}, i8 {left}, i8 {right})")

    def _operand(
        self, load: BufferLoad, walked: Loop, loops: tuple[Loop, ...], registers: range
    ) -> int:
        """The register that holds an operand, which is loaded where none does."""
        form, extra = self.evaluator.offsets.of(load.buffer, load.indices, size_of(load.dtype))
        key = (load.buffer, form, None if extra is None else extra.ref, self.writer.block)
        number, known = self._held.place(key, registers)
        if not known:
            self._load(number, load, walked, loops)
        return number

    def _load(self, number: int, load: BufferLoad, walked: Loop, loops: tuple[Loop, ...]) -> None:
        pointer, step = self._place(load.buffer, load.indices, walked, loops)
        self.writer.declare(_LOAD, "void {}(i8, ptr, i64)")
        self.writer.statement(f"call void @{_LOAD}(i8 {number}, ptr {pointer}, i64 {step})")
        if load.buffer.ahead:
            ahead = int(load.buffer.ahead) * size_of(load.dtype)
            for row in range(int(walked.extent)):
                self.memory.prefetches.line(Address(pointer, row * step, 0, None), ahead)

    def _place(
        self, buffer: Buffer, indices: tuple[Index, ...], walked: Loop, loops: tuple[Loop, ...]
    ) -> tuple[str, int]:
        """Where the first row starts, and bytes from row to row."""
        size = size_of(buffer.dtype)
        steps = steps_of(buffer, indices, loops)
        if steps is None:
            raise LoweringError(f"{buffer.name} is not read in rows by a tensor unit")
        form, extra = self.evaluator.offsets.of(buffer, indices, size)
        address = self.memory.address(buffer, Form(form.dynamic, 0, form.const), extra)
        step = steps[loops.index(walked)] * int(walked.stride) * size
        return self.memory.pointer(address), step


class _Held:
    """What is in the registers of operands, the one used last at the end."""

    def __init__(self) -> None:
        self._order: list[tuple[int, object]] = []

    def place(self, key: object, registers: range) -> tuple[int, bool]:
        """The register for an operand, and whether it is there already."""
        known = next((n for n, held in self._order if held == key and n in registers), None)
        taken = [n for n, _ in self._order if n in registers]
        free = [n for n in registers if n not in taken]
        number = known if known is not None else free[0] if free else taken[0]
        self._order = [(n, held) for n, held in self._order if n != number]
        self._order.append((number, key))
        return number, known is not None


def _moves(load: BufferLoad, loop: Loop) -> bool:
    return flatten(load.buffer, load.indices)[0].coefficient(loop.var) != 0
