"""Memory in which the arrays of one task after another are made.

A page that a process touches for the first time has to be found and cleared, which takes longer
than writing it: checks of kernels, each of which runs once, would do little else.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from collections.abc import Sequence
from threading import Lock
from typing import Final

import numpy as np

from autosched.measure.execution import Array, aligned_empty
from codegen.kernel import BUFFER_ALIGNMENT

# Pages that are never touched cost nothing.
_BYTES: Final = 1 << 27
# Smaller arrays come from where all others do.
_LEAST_BYTES: Final = 1 << 16


class Scratch:
    """Gives arrays; the memory of one that nothing refers to is used again.  Any number of threads
    may ask.
    """

    def __init__(self, size: int = _BYTES) -> None:
        """``size``: in bytes; what does not fit is allocated by itself."""
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._free = [(0, size)]  # ascending, apart
        # Arrays may end at any time, while this very object looks for room, too.
        self._ended: deque[tuple[int, int]] = deque()
        self._lock = Lock()

    def empty(self, shape: Sequence[int], dtype: str) -> Array:
        """An uninitialised C-contiguous array, aligned as kernels want it."""
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        start = self._start(size) if size >= _LEAST_BYTES else None
        if start is None:
            return aligned_empty(shape, dtype)
        # Views of it refer to it: where the memory is no array, NumPy goes no further.
        part = np.frombuffer(self._memory, np.uint8, size, start)
        ended = weakref.finalize(part, self._ended.append, (start, start + _padded(size)))
        ended.atexit = False
        return part.view(dtype).reshape(shape)

    def _start(self, size: int) -> int | None:
        """Where so many bytes are free, as low as there are any; they are taken."""
        size = _padded(size)
        with self._lock:
            self._collect()
            for place, (start, stop) in enumerate(self._free):
                if stop - start >= size:
                    self._free[place : place + 1] = [(start + size, stop)]
                    return start
        return None

    def _collect(self) -> None:
        """Add what has ended to what is free."""
        if not self._ended:
            return
        while self._ended:
            self._free.append(self._ended.popleft())
        joined: list[tuple[int, int]] = []
        for start, stop in sorted(self._free):
            if joined and joined[-1][1] == start:
                start = joined.pop()[0]
            joined.append((start, stop))
        self._free = joined


def _padded(size: int) -> int:
    return -(-size // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT
