"""Control flow: conditionals and merges of register cells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from codegen.llvm.evaluator import Cell, ExpressionEmitter
from codegen.llvm.values import SsaValue, type_text


class Flow:
    """Blocks, and phis for the register cells where paths meet."""

    def __init__(self, evaluator: ExpressionEmitter) -> None:
        self.evaluator = evaluator
        self.writer = evaluator.writer

    def open_block(self, label: str) -> None:
        """Start a basic block; nothing loaded in another one is reused."""
        self.writer.open_block(label)
        self.evaluator.memory.new_region()

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Code that runs only if ``condition`` holds."""
        then, join = self.writer.label("then"), self.writer.label("join")
        self.writer.branch_if(condition, then, join)
        before, cells = self.writer.block, dict(self.evaluator.cells)
        self.open_block(then)
        yield
        after, changed = self.writer.block, dict(self.evaluator.cells)
        self.writer.branch(join)
        self.open_block(join)
        self.merge([(before, cells), (after, changed)])

    def merge(self, paths: list[tuple[str, dict[Cell, SsaValue]]]) -> None:
        """The cells at the start of a block that is reached from several others."""
        first = paths[0][1]
        merged: dict[Cell, SsaValue] = {}
        for cell, value in first.items():
            if any(cell not in cells for _, cells in paths):
                continue
            if all(cells[cell].ref == value.ref for _, cells in paths):
                merged[cell] = value
                continue
            kind = type_text(value.dtype, value.width)
            incoming = ", ".join(
                f"[{self.evaluator.operand(cells[cell], value.width)}, %{label}]"
                for label, cells in paths
            )
            name = self.writer.fresh("m")
            self.writer.lines.append(f"  {name} = phi {kind} {incoming}")
            merged[cell] = SsaValue(name, value.dtype, value.width)
        self.evaluator.cells = merged
