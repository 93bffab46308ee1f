"""The progress of tuning in a notebook: one table that is redrawn in its cell."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from autosched.report.events import ProgressSnapshot
from autosched.report.table import (
    LEFT,
    cells_of,
    columns,
    limits,
    more_line,
    status,
    summary_lines,
    visible,
)
from autosched.runtime.peaks import Peaks
from sketch.html import html_lines, html_table

_EVERY_S: Final = 0.5
# Rows while tuning goes on; the table at the end has them all.
_ROWS: Final = 24
# Of the newest messages, so that warnings do not push the table away.
_MESSAGES: Final = 8


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows what it is given as HTML."""
    # Where nobody has imported it there is no notebook.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


class NotebookProgress:
    """A table that is redrawn in place, at most twice a second.

    Args:
        peaks: of the machine, for the share of the peak.
        clock: in seconds.
    """

    def __init__(
        self, peaks: Peaks | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._peaks, self._clock = peaks, clock
        self._ipython = import_module("IPython.display")
        self._handle: Any = None
        self._messages: list[str] = []
        self._view: ProgressSnapshot | None = None
        self._next_s = 0.0

    def start(self, view: ProgressSnapshot) -> None:
        """Draw the table."""
        self._handle = self._ipython.display(self._drawn(view), display_id=True)
        self._next_s = self._clock() + _EVERY_S

    def update(self, view: ProgressSnapshot) -> None:
        """Draw it again, if that was long enough ago."""
        self._view = view
        if self._clock() >= self._next_s:
            self._show(view)

    def message(self, text: str) -> None:
        """A line below the table."""
        self._messages = [*self._messages, text][-_MESSAGES:]
        if self._view is not None:
            self._show(self._view)

    def finish(self, view: ProgressSnapshot) -> None:
        """Leave the whole table and the sum in the cell."""
        self._show(view, everything=True)

    def _show(self, view: ProgressSnapshot, everything: bool = False) -> None:
        if self._handle is not None:
            self._handle.update(self._drawn(view, everything))
        self._next_s = self._clock() + _EVERY_S

    def _drawn(self, view: ProgressSnapshot, everything: bool = False) -> Any:
        numbers = visible(view, len(view.rows) if everything else _ROWS)
        rows = [cells_of(n, view.rows[n], self._peaks, view.retimed) for n in numbers]
        title = f"tuning: {limits(view)}" if not everything else "tuned"
        more = more_line(view, numbers)
        notes = summary_lines(view) if everything else [*([more] if more else []), status(view)]
        strong = numbers.index(view.current) if view.current in numbers else None
        table = html_table(title, columns(self._peaks, view.retimed), rows, LEFT, notes, strong)
        return self._ipython.HTML(table + html_lines(*self._messages))
