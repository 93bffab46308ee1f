"""Block code: a tape as operations that machine code does for 64 programs at a time.

A replay by NumPy takes about a microsecond for every operation, most of which is not spent on the
numbers.  Block code does all operations for 64 programs, whose values stay in the caches, then for
the next ones.  The results are the same to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.block_machine import LANES, ROW_BYTES, machine
from costmodel.extract.quantity import Floats

_ALIGNMENT: Final = 64


class Logs(NamedTuple):
    """Rows that get the binary logarithms of others, by NumPy, whose last bits are its own."""

    source: slice
    target: slice


class Segment(NamedTuple):
    """Operations for the machine, the first of them at ``start``; what is done after them."""

    start: int
    operations: int
    logs: Logs | None


@dataclass(frozen=True, slots=True, eq=False)
class BlockCode:
    """Operations on rows of 64 lanes; the first rows are the decisions, then come constants.

    Attributes:
        code: int32, operations one after the other, as ``block_machine`` reads them.
        segments: of all operations.
        constants: float64 [C], of which each fills a row; integers by their bits.
        rows: of memory.
        inputs: decisions.
    """

    code: NDArray[np.int32]
    segments: tuple[Segment, ...]
    constants: Floats
    rows: int
    inputs: int

    def run(self, decisions: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Write the results of the tape.

        Args:
            decisions: [D, P].
            out: [R, P], stored dense; float32 or float64, as ``block_code`` was told.
        """
        count = decisions.shape[1]
        if count >= LANES:
            self._run(decisions, out)
        elif count:
            wide = np.empty((len(out), LANES), out.dtype)
            wide[:, :count] = out  # rows that are no results stay as they are
            self._run(decisions[:, np.minimum(np.arange(LANES), count - 1)], wide)
            out[:] = wide[:, :count]

    def _run(self, decisions: NDArray[np.int64], out: NDArray[Any]) -> None:
        """``run`` for at least 64 programs."""
        run, count, memory = machine(), decisions.shape[1], _aligned(self.rows)
        memory[self.inputs : self.inputs + len(self.constants)] = self.constants[:, None]
        filled = memory[: self.inputs].view(np.int64)
        code, base, results = self.code.ctypes.data, memory.ctypes.data, out.ctypes.data
        for block in range(0, count, LANES):
            start = min(block, count - LANES)  # the last block repeats some of the one before
            filled[:] = decisions[:, start : start + LANES]
            at = results + start * out.itemsize
            for offset, operations, logs in self.segments:
                if operations:
                    run(code + 4 * offset, operations, base, at, out.strides[0])
                if logs is not None:
                    np.log2(memory[logs.source], out=memory[logs.target])


def _aligned(rows: int) -> Floats:
    """[rows, 64] that starts where a vector may."""
    raw = np.empty(rows * ROW_BYTES + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + rows * ROW_BYTES].view(np.float64).reshape(rows, LANES)
