"""Lines from a pipe, with a limit of time."""

from __future__ import annotations

import os
import select


class LineReader:
    """Reads lines of a file descriptor, which it owns.

    Attributes:
        timed_out: whether the last line did not come in time.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self.timed_out = False

    def next(self, seconds: float) -> str | None:
        """The next line; None at the end of the file, or after ``seconds`` without one."""
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._descriptor], [], [], max(seconds, 0.0))
            if not ready:
                self.timed_out = True
                return None
            data = os.read(self._descriptor, 1 << 16)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        """Close the file descriptor."""
        os.close(self._descriptor)
