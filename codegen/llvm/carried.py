"""Register cells that a loop carries: a phi for each cell that a trip changes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from codegen.llvm.evaluator import Cell, ExpressionEmitter
from codegen.llvm.values import SsaValue, type_text
from sketch.nest.loopnest import Buffer


class Carried:
    """The cells of one loop, from its header to its latch.

    A cell that no trip changes needs no phi: at an edge most sums of a tile stay as they are.  Its
    name is known in the body all the same, and where something reads it there, the phi stays.
    """

    def __init__(self, evaluator: ExpressionEmitter, written: AbstractSet[Buffer]) -> None:
        """At the start of the header; ``written``: buffers that the body stores to."""
        self._evaluator, writer = evaluator, evaluator.writer
        self._phis = writer.part()
        cells = evaluator.cells
        self._initial = {cell: cells[cell] for cell in cells if cell[0] in written}
        self._names: dict[Cell, str] = {}
        for cell, value in self._initial.items():
            name = self._names[cell] = writer.fresh("c")
            cells[cell] = SsaValue(name, value.dtype, value.width)

    def close(self, index: str, before: str, latch: str) -> None:
        """At the end of the latch.

        Args:
            index: the phi of the loop's variable.
            before: the block from which the loop is entered.
            latch: the block that jumps back.
        """
        self._phis.append(index)
        cells, read = self._evaluator.cells, self._evaluator.names_read
        for cell, value in self._initial.items():
            name, last = self._names[cell], cells[cell].ref
            if last == name and name not in read:
                cells[cell] = value
                continue
            read.add(value.ref)
            kind = type_text(value.dtype, value.width)
            self._phis.append(f"  {name} = phi {kind} [{value.ref}, %{before}], [{last}, %{latch}]")
