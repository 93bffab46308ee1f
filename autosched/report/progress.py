"""Showing the progress of tuning: a live table on a terminal, a line now and then elsewhere.

In a notebook ``report.notebook`` does it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

from autosched.report.events import Progress, ProgressSnapshot, Quiet
from autosched.report.notebook import NotebookProgress, in_notebook
from autosched.report.table import (
    cells_of,
    columns,
    limits,
    milliseconds,
    status,
    summary_lines,
    visible,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    from autosched.runtime.peaks import Peaks

__all__ = ["PlainProgress", "Progress", "Quiet", "TableProgress", "choose_progress"]

_LINE_EVERY_S: Final = 5.0


def choose_progress(
    quiet: bool = False, peaks: Peaks | None = None, stream: TextIO | None = None
) -> Progress:
    """A table on a terminal and in a notebook, plain lines elsewhere, nothing when ``quiet``.

    ``peaks``: of the machine, see ``runtime.probes.peak``; None leaves the column out.
    """
    out = stream or sys.stdout
    if quiet:
        return Quiet()
    if stream is None and in_notebook():
        return NotebookProgress(peaks)
    return TableProgress(peaks) if out.isatty() else PlainProgress(out, peaks)


class PlainProgress:
    """Lines of text: one every few seconds, then a table.

    Args:
        stream: where to.
        peaks: of the machine, for the share of the peak.
        every_s: least time between two lines.
        clock: in seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        peaks: Peaks | None = None,
        every_s: float = _LINE_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._peaks = stream, peaks
        self._every_s, self._clock = every_s, clock
        self._next_s = 0.0
        self._read = True

    def start(self, view: ProgressSnapshot) -> None:
        """How much there is to do."""
        known = f", {view.trials} trials in the log" if view.trials else ""
        count = len(view.rows)
        tasks = "1 task" if count == 1 else f"{count} tasks"
        self._line(f"tuning {tasks}, {limits(view)}{known}")
        self._next_s = self._clock() + self._every_s

    def update(self, view: ProgressSnapshot) -> None:
        """A line, if the last one was long enough ago."""
        if self._clock() < self._next_s:
            return
        self._next_s = self._clock() + self._every_s
        row = None if view.current is None else view.rows[view.current]
        task = "" if row is None else f"; {row.name}: {milliseconds(row.best_s)}"
        self._line(f"{status(view)}{task}")

    def message(self, text: str) -> None:
        """A line at once."""
        self._line(text)

    def finish(self, view: ProgressSnapshot) -> None:
        """All tasks, and the sum."""
        retimed = view.retimed
        rows = [cells_of(n, row, self._peaks, retimed) for n, row in enumerate(view.rows)]
        cells = [columns(self._peaks, retimed), *rows]
        widths = [max(len(line[n]) for line in cells) for n in range(len(cells[0]))]
        for line in cells:
            padded = [
                text.ljust(width) if n in (1, 2) else text.rjust(width)
                for n, (text, width) in enumerate(zip(line, widths, strict=True))
            ]
            self._line("  ".join(padded).rstrip())
        for text in summary_lines(view):
            self._line(text)

    def _line(self, text: str) -> None:
        if not self._read:
            return
        try:
            print(text, file=self._stream, flush=True)
        except BrokenPipeError:  # ``| head``: no reason to measure no more
            self._read = False


class TableProgress:
    """A table that is redrawn in place (rich)."""

    def __init__(self, peaks: Peaks | None = None, console: Console | None = None) -> None:
        from rich.console import Console as RichConsole

        self._peaks = peaks
        self._console = console or RichConsole()
        self._live: Live | None = None

    def start(self, view: ProgressSnapshot) -> None:
        """Draw the table."""
        from rich.live import Live as RichLive

        self._live = RichLive(
            self._table(view), console=self._console, auto_refresh=False, transient=True
        )
        self._live.start(refresh=True)

    def update(self, view: ProgressSnapshot) -> None:
        """Draw it again."""
        if self._live is not None:
            self._live.update(self._table(view), refresh=True)

    def message(self, text: str) -> None:
        """A line above the table."""
        self._console.print(text, markup=False, highlight=False)

    def finish(self, view: ProgressSnapshot) -> None:
        """Leave the whole table and the sum on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._console.print(self._table(view, everything=True))
        for line in summary_lines(view):
            self._console.print(line, markup=False, highlight=False)

    def _table(self, view: ProgressSnapshot, everything: bool = False) -> Table:
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=box.SIMPLE, caption=None if everything else status(view))
        for number, title in enumerate(columns(self._peaks, view.retimed)):
            left = number in (1, 2)
            table.add_column(
                title, justify="left" if left else "right", no_wrap=not left, overflow="ellipsis"
            )
        for number in visible(view, everything):
            style = "bold" if number == view.current else ""
            cells = cells_of(number, view.rows[number], self._peaks, view.retimed)
            table.add_row(*(Text(cell) for cell in cells), style=style)
        return table
