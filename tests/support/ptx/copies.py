"""Asynchronous copies into shared memory: begun, committed in groups, waited for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.ptx.memory import Region, Who


class AsynchronousCopies:
    """The copies of a launch that have not arrived; every thread waits for its own."""

    def __init__(self, count: int, shared: Region) -> None:
        """``count``: lanes of the launch."""
        self._count = count
        self._shared = shared
        self._copies: list[_Copy] = []

    def begin(self, who: Who, cells: NDArray[np.int64], values: NDArray[np.uint8]) -> None:
        """Bytes ``values[lanes, size]`` will arrive in ``cells``.  Raises MemoryFault."""
        self._shared.begin_copy(cells, who)
        issued = np.zeros(self._count, bool)
        issued[who.lane] = True
        self._copies.append(
            _Copy(who.lane, cells, values, issued, np.full(self._count, -1, np.int64))
        )

    def commit(self, lanes: NDArray[np.int64]) -> None:
        """What these lanes have begun and not committed is a group."""
        for copy in self._copies:
            copy.groups[lanes] += copy.issued[lanes]

    def wait(self, who: Who, left: int) -> None:
        """All but the last ``left`` groups of these lanes have arrived; -1: also copies in none."""
        waiting = np.zeros(self._count, bool)
        waiting[who.lane] = True
        epochs = np.zeros(self._count, np.int64)
        epochs[who.lane] = who.epoch
        blocks = np.zeros(self._count, np.int64)
        blocks[who.lane] = who.block
        for copy in self._copies:
            arrived = waiting & copy.issued & (copy.groups >= left)
            chosen = np.flatnonzero(arrived[copy.lanes])
            lanes = copy.lanes[chosen]
            self._shared.end_copy(
                copy.cells[chosen], copy.values[chosen], Who(lanes, blocks[lanes], epochs[lanes])
            )
            copy.issued &= ~arrived
        self._copies = [copy for copy in self._copies if copy.issued.any()]


class _Copy:
    """One instruction.  ``issued``: lanes of the launch whose copy is under way; ``groups``: how
    many groups each lane has committed since, -1 while the copy is in none.
    """

    def __init__(
        self,
        lanes: NDArray[np.int64],
        cells: NDArray[np.int64],
        values: NDArray[np.uint8],
        issued: NDArray[Any],
        groups: NDArray[np.int64],
    ) -> None:
        self.lanes, self.cells, self.values = lanes, cells, values
        self.issued, self.groups = issued, groups
