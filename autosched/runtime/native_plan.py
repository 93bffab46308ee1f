"""The native plan of a program: one row for each execution of a kernel, loops written out.

Nothing is left to compute between two kernels, not even the addresses of an iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.program import Argument, ExecutionPlan, Place, RepeatedSteps, Step

ROW_BYTES: Final = 16


class NativeLibrary(Protocol):
    """Loaded machine code: all kernels of a program, ``run_plan`` and ``run_plan_timed``."""

    def address(self, symbol: str) -> int:
        """Address of a function."""
        ...


class _Cell(NamedTuple):
    """An entry ``offset`` bytes behind the address of an array of the caller's, by its number."""

    entry: memoryview
    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Follower:
    """Entries that follow the address of an array of the caller's, int64 ``offsets`` behind it.

    ``number``: of the array; ``written``: it is an output, not an input.
    """

    entries: NDArray[np.uint64]
    number: int
    written: bool
    offsets: NDArray[np.int64]


class NativePlan:
    """Rows ``{function, table of arguments}`` in the order of execution.

    Attributes:
        steps: number of the step that each row executes, int64 ``[rows]``.
        address: where the rows lie, each of ``ROW_BYTES``.
    """

    def __init__(
        self, program: ExecutionPlan, bases: Mapping[str, int], library: NativeLibrary
    ) -> None:
        """``bases``: addresses of the arena and of the constants; ``library``: owns the code."""
        self._library = library
        self._bases = bases
        self._followers: list[_Follower] = []
        self._read: list[_Cell] = []
        self._written: list[_Cell] = []
        self._tables: list[NDArray[np.uint64]] = []
        blocks = [self._block(program, loop) for loop in kernel_loops(program)]
        self._rows = np.concatenate([rows for rows, _ in blocks] or [np.zeros((0, 2), np.uint64)])
        self.steps = np.concatenate([steps for _, steps in blocks] or [np.zeros(0, np.int64)])
        self.address = self._rows.ctypes.data

    def bind(self, inputs: Sequence[int], outputs: Mapping[int, int]) -> None:
        """Let the kernels read and write arrays of the caller's.

        Args:
            inputs: addresses in the order of the program's inputs.
            outputs: addresses by the number of the output.
        """
        for entry, number, offset in self._read:  # nearly all: numbers are quicker than arrays
            entry[0] = inputs[number] + offset
        for entry, number, offset in self._written:
            entry[0] = outputs[number] + offset
        for follower in self._followers:
            number = follower.number
            address = outputs[number] if follower.written else inputs[number]
            follower.entries[...] = follower.offsets + address

    def _block(
        self, program: ExecutionPlan, loop: RepeatedSteps
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Rows of all iterations, uint64 ``[trips * count, 2]``, and the step of each."""
        rows = np.zeros((loop.trips, loop.count, 2), np.uint64)
        steps = program.steps[loop.first : loop.first + loop.count]
        for position, step in enumerate(steps):
            assert isinstance(step, Step)
            table = self._table(step.arguments, loop.trips)
            rows[:, position, 0] = self._library.address(step.symbol)
            rows[:, position, 1] = table.ctypes.data + table.strides[0] * np.arange(loop.trips)
        numbers = np.arange(loop.first, loop.first + loop.count)
        return rows.reshape(-1, 2), np.tile(numbers, loop.trips)

    def _table(self, arguments: Sequence[Argument], trips: int) -> NDArray[np.uint64]:
        """Addresses of the arguments in each iteration, uint64 ``[trips, arguments]``.

        Entries that are inputs or outputs are filled in by ``bind``.
        """
        table = np.zeros((trips, len(arguments)), np.uint64)
        for column, argument in enumerate(arguments):
            if isinstance(argument, Place):
                self._fill(table[:, column], argument, np.zeros(1, np.int64))
                continue
            if argument.first is not None:
                self._fill(table[:1, column], argument.first, np.zeros(1, np.int64))
            offsets = argument.offsets(trips)
            self._fill(table[trips - len(offsets) :, column], argument.place, offsets)
        self._tables.append(table)
        return table

    def _fill(self, entries: NDArray[np.uint64], place: Place, offsets: NDArray[np.int64]) -> None:
        if place.segment in ("input", "output"):
            written = place.segment == "output"
            if len(entries) == 1:
                cells = self._written if written else self._read
                cells.append(_Cell(entries.data, place.offset, int(offsets[0])))
            else:
                self._followers.append(_Follower(entries, place.offset, written, offsets))
        elif place.segment in self._bases:
            entries[...] = offsets + (self._bases[place.segment] + place.offset)


def kernel_loops(program: ExecutionPlan) -> Iterator[RepeatedSteps]:
    """The kernels of ``program`` as loops, those outside of one as loops of a single iteration."""
    loops = {loop.first: loop for loop in program.loops}
    inside = {n for loop in program.loops for n in range(loop.first, loop.first + loop.count)}
    for number, step in enumerate(program.steps):
        if number in loops:
            yield loops[number]
        elif number not in inside and isinstance(step, Step):
            yield RepeatedSteps(number, 1, 1)
