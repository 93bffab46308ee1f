"""Signs of life while a graph of ``torch.compile`` is tuned: lines on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO

from autosched.report.table import limits, status, summary_lines

if TYPE_CHECKING:
    from autosched.network_source import PathText
    from autosched.report.events import ProgressSnapshot

_LINE_EVERY_S: Final = 10.0


class GraphProgress:
    """A line at the start, one now and then, and one at the end.

    Args:
        name: of the graph.
        log: that it is tuned into.
        stream: where to; None: stderr.
        clock: in seconds.
    """

    def __init__(
        self,
        name: str,
        log: PathText | None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._log = name, "" if log is None else f", log {log}"
        self._stream, self._clock = stream or sys.stderr, clock
        self._next_s = 0.0

    def start(self, view: ProgressSnapshot) -> None:
        """How much there is to do."""
        count = len(view.rows)
        tasks = f"{count} task{'s' * (count != 1)}"
        self.message(f"tuning {self._name}: {tasks}, {limits(view)}{self._log}")
        self._next_s = self._clock() + _LINE_EVERY_S

    def update(self, view: ProgressSnapshot) -> None:
        """A line, if the last one was long enough ago."""
        if self._clock() >= self._next_s:
            self._next_s = self._clock() + _LINE_EVERY_S
            self.message(f"tuning {self._name}: {status(view)}")

    def message(self, text: str) -> None:
        """A line at once."""
        with suppress(BrokenPipeError):  # nobody reads: no reason to tune no more
            print(text, file=self._stream, flush=True)

    def finish(self, view: ProgressSnapshot) -> None:
        """What came of it."""
        self.message(f"tuned {self._name}: {summary_lines(view)[-1]}")
