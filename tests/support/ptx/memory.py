"""Memory of a launch, byte by byte, that knows who touched what since which barrier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Lanes = NDArray[np.int64]

_NOBODY: Final = -1
_SEVERAL: Final = -2
_BLOCKS: Final = -3  # threads of several blocks


class MemoryFault(AssertionError):
    """An access that a GPU does not allow, or that depends on the order of threads."""


@dataclass(frozen=True, slots=True)
class Who:
    """The lanes of an access: ``lane`` in the launch, ``block``, ``epoch`` (barriers passed)."""

    lane: Lanes
    block: Lanes
    epoch: Lanes


@dataclass(slots=True, eq=False)
class Region:
    """Addresses ``start`` to ``start + len(data)``.

    ``known`` tells the bytes that hold a value; ``inside`` those that belong to a variable.
    """

    name: str
    start: int
    data: NDArray[np.uint8]
    writable: bool
    known: NDArray[np.bool_]
    inside: NDArray[np.bool_]
    pending: NDArray[np.int64] = field(init=False)
    writer: NDArray[np.int64] = field(init=False)
    reader: NDArray[np.int64] = field(init=False)
    written: NDArray[np.int64] = field(init=False)  # epoch
    read_at: NDArray[np.int64] = field(init=False)  # epoch
    owner: NDArray[np.int64] = field(init=False)  # block of the writer
    visitor: NDArray[np.int64] = field(init=False)  # block of the readers
    published: NDArray[np.int64] = field(init=False)  # epoch since which units may see it
    busy: NDArray[np.int64] = field(init=False)  # products under way that read it

    def __post_init__(self) -> None:
        size = len(self.data)
        self.busy, self.published = np.zeros(size, np.int64), np.full(size, _NOBODY, np.int64)
        for name in ("pending", "writer", "reader", "written", "read_at", "owner", "visitor"):
            setattr(self, name, np.full(size, _NOBODY, np.int64))

    @staticmethod
    def of(name: str, start: int, values: NDArray[Any], writable: bool, known: bool) -> Region:
        """A region over the bytes of an array; writes go to the array."""
        data = values.reshape(-1).view(np.uint8)
        everywhere = np.ones(len(data), bool)
        return Region(name, start, data, writable, np.full(len(data), known), everywhere)

    def forget(self) -> None:
        """A new launch: what was written before is in order for every thread."""
        for name in ("pending", "writer", "reader", "written", "read_at", "owner", "visitor"):
            getattr(self, name)[...] = _NOBODY

    def read(self, at: NDArray[np.int64], who: Who) -> NDArray[np.uint8]:
        """Bytes ``[lanes, size]`` at offsets ``at[lanes, size]``."""
        self._check(at, who, "read")
        if not self.known[at].all():
            self._fault("uninitialised read", at, ~self.known[at], who)
        if self.writable:
            self._exclude(at, who, "read", self._written_by_another(at, who))
            self._note_readers(at, who)
        return self.data[at]

    def read_by_unit(self, at: NDArray[np.int64], who: Who) -> NDArray[np.uint8]:
        """As ``read``, by a unit that sees only what was published before the last barrier."""
        data = self.read(at, who)
        published = self.published[at]
        early = (published == _NOBODY) | (published >= who.epoch[:, None])
        if early.any():
            self._fault(
                "a unit reads what no thread has published before a barrier", at, early, who
            )
        return data

    def publish(self, who: Who) -> None:
        """What these lanes have written, units may read behind the next barrier."""
        epochs = np.full(int(self.writer.max(initial=0)) + 2, _NOBODY, np.int64)
        inside = who.lane < len(epochs) - 1
        epochs[who.lane[inside]] = who.epoch[inside]
        found = epochs[self.writer]  # of nobody, the last one
        fresh = (found != _NOBODY) & (self.published == _NOBODY)
        self.published[fresh] = found[fresh]

    def write(self, at: NDArray[np.int64], values: NDArray[np.uint8], who: Who) -> None:
        """Store bytes ``[lanes, size]``."""
        self._claim(at, who)
        self.data[at] = values
        self.known[at] = True
        self.writer[at], self.written[at] = who.lane[:, None], who.epoch[:, None]
        self.owner[at] = who.block[:, None]
        self.published[at] = _NOBODY

    def begin_copy(self, at: NDArray[np.int64], who: Who) -> None:
        """An asynchronous copy will store there: until then nobody may touch the bytes."""
        self._claim(at, who)
        self.pending[at] = who.lane[:, None]
        self.known[at] = False

    def end_copy(self, at: NDArray[np.int64], values: NDArray[np.uint8], who: Who) -> None:
        """The copy has arrived, for the thread that waited for it."""
        self.pending[at] = _NOBODY
        self.write(at, values, who)

    def _claim(self, at: NDArray[np.int64], who: Who) -> None:
        self._check(at, who, "write")
        if not self.writable:
            self._fault("write to what is read-only", at, np.ones(at.shape, bool), who)
        if (busy := self.busy[at] > 0).any():
            self._fault("write to what a product under way reads", at, busy, who)
        if _has_equals(at, len(self.data)):
            self._fault("race: two threads write", at, np.ones(at.shape, bool), who)
        self._exclude(at, who, "write", self._written_by_another(at, who))
        self._exclude(at, who, "write", self._read_by_another(at, who))

    def _check(self, at: NDArray[np.int64], who: Who, what: str) -> None:
        outside = (at < 0) | (at >= len(self.data))
        if not outside.any():
            outside = ~self.inside[at]
        if outside.any():
            self._fault(f"{what} out of bounds", at, outside, who)
        copying = self.pending[at] != _NOBODY
        if copying.any():
            self._fault(f"race: {what} of what an asynchronous copy fills", at, copying, who)

    def _written_by_another(self, at: NDArray[np.int64], who: Who) -> NDArray[np.bool_]:
        lane, block, epoch = who.lane[:, None], who.block[:, None], who.epoch[:, None]
        writer = self.writer[at]
        unordered = (self.owner[at] != block) | (self.written[at] == epoch)
        return (writer != _NOBODY) & (writer != lane) & unordered

    def _read_by_another(self, at: NDArray[np.int64], who: Who) -> NDArray[np.bool_]:
        lane, block, epoch = who.lane[:, None], who.block[:, None], who.epoch[:, None]
        visitor = self.visitor[at]
        unordered = (visitor != block) | (self.read_at[at] == epoch)
        return (visitor != _NOBODY) & (self.reader[at] != lane) & unordered

    def _note_readers(self, at: NDArray[np.int64], who: Who) -> None:
        lane, block, epoch = (
            np.broadcast_to(values[:, None], at.shape).reshape(-1)
            for values in (who.lane, who.block, who.epoch)
        )
        cells, first, counts = np.unique(at.reshape(-1), return_index=True, return_counts=True)
        lane, block, epoch = lane[first], block[first], epoch[first]
        alone = counts == 1
        old_block = self.visitor[cells]
        fresh = (old_block == _NOBODY) | ((old_block == block) & (self.read_at[cells] != epoch))
        same = (self.reader[cells] == lane) | fresh
        self.reader[cells] = np.where(same & alone, lane, _SEVERAL)
        blocks = (old_block != _NOBODY) & (old_block != block)
        if not alone.all() and len(np.unique(who.block)) > 1:
            # Several lanes of one access: they may belong to several blocks.
            last = np.zeros(len(self.data), np.int64)
            last[at] = who.block[:, None]
            blocks |= last[cells] != block
        self.visitor[cells] = np.where(blocks, _BLOCKS, block)
        self.read_at[cells] = epoch

    def _exclude(
        self, at: NDArray[np.int64], who: Who, what: str, conflict: NDArray[np.bool_]
    ) -> None:
        if conflict.any():
            self._fault(f"race: {what} without a barrier", at, conflict, who)

    def _fault(self, what: str, at: NDArray[np.int64], where: NDArray[np.bool_], who: Who) -> None:
        lane, byte = np.argwhere(where)[0]
        raise MemoryFault(
            f"{what}: {self.name} at byte {int(at[lane, byte])} of {len(self.data)}, "
            f"block {int(who.block[lane])}, lane {int(who.lane[lane])}"
        )


def _has_equals(at: NDArray[np.int64], size: int) -> bool:
    """Whether two offsets below ``size`` are equal: of equal ones only the last number stays."""
    numbers = np.arange(at.size).reshape(at.shape)
    last = np.empty(size, np.int64)
    last[at] = numbers
    return bool((last[at] != numbers).any())
