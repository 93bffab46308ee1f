"""Where the time of a run goes."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self


class Stopwatch:
    """Adds up the wall-clock time inside its ``with`` blocks; nested blocks count once.

    Attributes:
        seconds: so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._began = 0.0

    def __enter__(self) -> Self:
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began
