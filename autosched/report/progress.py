"""Showing the progress of tuning: a live table on a terminal, a line now and then elsewhere.

In a notebook ``report.notebook`` does it.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO, cast

from autosched.report.events import Progress, ProgressSnapshot, Quiet
from autosched.report.notebook import NotebookProgress, in_notebook
from autosched.report.table import (
    limits,
    more_line,
    status,
    summary_lines,
    table_lines,
    visible,
    with_unit,
)
from autosched.system.streams import UnfailingStream, is_terminal, print_line
from autosched.system.user_warnings import notify

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from autosched.runtime.peaks import Peaks

__all__ = [
    "PlainProgress", "Progress", "Quiet", "TableProgress", "Unfailing", "choose_progress",
]  # fmt: skip

_LINE_EVERY_S: Final = 5.0
# Lines of a terminal beside rows and status: the titles, and the line of the cursor.
_OTHER_LINES: Final = 2


def choose_progress(
    quiet: bool = False, peaks: Peaks | None = None, stream: TextIO | None = None
) -> Progress:
    """A table on a terminal and in a notebook, plain lines elsewhere, nothing when ``quiet``.

    What it returns raises nothing: no stream, however broken, ends a run.

    Args:
        quiet: show nothing.
        peaks: of the machine, see ``runtime.probes.peak``; None leaves the column out.
        stream: where to; None: a notebook or stdout.
    """
    out = sys.stdout if stream is None else stream
    notebook = stream is None and in_notebook()
    if quiet or (out is None and not notebook):
        return Quiet()
    return Unfailing(NotebookProgress(peaks) if notebook else _on_stream(out, peaks))


def _on_stream(out: TextIO, peaks: Peaks | None) -> Progress:
    if not is_terminal(out):
        return PlainProgress(out, peaks)
    from rich.console import Console as RichConsole

    console = RichConsole(file=cast("TextIO", UnfailingStream(out)))
    if console.is_dumb_terminal:  # which redraws nothing
        return PlainProgress(out, peaks, width=console.width)
    return TableProgress(peaks, console)


class Unfailing:
    """A progress that is given up, with a warning, when showing it fails: it must not end a run.

    ``shown`` may be an object of the user's, and so may the stream below it.
    """

    def __init__(self, shown: Progress) -> None:
        self.shown = shown
        self._failed = False

    def start(self, view: ProgressSnapshot) -> None:
        """Passed on."""
        self._try(lambda: self.shown.start(view))

    def update(self, view: ProgressSnapshot) -> None:
        """Passed on."""
        self._try(lambda: self.shown.update(view))

    def message(self, text: str) -> None:
        """Passed on."""
        self._try(lambda: self.shown.message(text))

    def finish(self, view: ProgressSnapshot) -> None:
        """Passed on, in any case: a live table has to give the terminal back."""
        self._try(lambda: self.shown.finish(view), again=True)

    def _try(self, call: Callable[[], None], again: bool = False) -> None:
        if self._failed and not again:
            return
        try:
            call()
        except Exception as error:  # the boundary to objects of the user's
            if not self._failed:
                self._failed = True
                with suppress(ValueError):  # stderr is closed
                    notify([f"progress is shown no more: {type(error).__name__}: {error}"])


class PlainProgress:
    """Lines of text: one every few seconds, then a table.

    Args:
        stream: where to; None: nowhere.
        peaks: of the machine, for the share of the peak.
        every_s: least time between two lines.
        clock: in seconds.
        width: characters of a line of the table at the end; None: any.
        prefix: of all lines but those at the end.
        about: what the first line says at its end.
    """

    def __init__(
        self,
        stream: TextIO | None,
        peaks: Peaks | None = None,
        every_s: float = _LINE_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
        width: int | None = None,
        prefix: str = "",
        about: str = "",
    ) -> None:
        self._stream, self._peaks, self._width = stream, peaks, width
        self._prefix, self._about = prefix, about
        self._every_s, self._clock = every_s, clock
        self._next_s = 0.0

    def start(self, view: ProgressSnapshot) -> None:
        """How much there is to do."""
        known = f", {view.trials} trials in the log" if view.trials else ""
        count = len(view.rows)
        tasks = "1 task" if count == 1 else f"{count} tasks"
        prefix = self._prefix or "tuning "
        self.message(f"{prefix}{tasks}, {limits(view)}{known}{self._about}")
        self._next_s = self._clock() + self._every_s

    def update(self, view: ProgressSnapshot) -> None:
        """A line, if the last one was long enough ago."""
        if self._clock() < self._next_s:
            return
        self._next_s = self._clock() + self._every_s
        row = None if view.current is None else view.rows[view.current]
        task = "" if row is None else f"; {row.name}: {with_unit(row.best_s)}"
        self.message(f"{self._prefix}{status(view)}{task}")

    def message(self, text: str) -> None:
        """A line at once."""
        print_line(text, self._stream)

    def finish(self, view: ProgressSnapshot) -> None:
        """All tasks, and the sum."""
        rows = range(len(view.rows))
        for text in (
            *table_lines(view, rows, self._peaks, self._width),
            *summary_lines(view),
        ):
            self.message(text)


class TableProgress:
    """A table that is redrawn in place (rich)."""

    def __init__(self, peaks: Peaks | None, console: Console) -> None:
        self._peaks, self._console = peaks, console
        self._live: Live | None = None

    def start(self, view: ProgressSnapshot) -> None:
        """Draw the table."""
        from rich.live import Live as RichLive

        self._live = RichLive(
            self._drawn(view), console=self._console, auto_refresh=False, transient=True
        )
        self._live.start(refresh=True)

    def update(self, view: ProgressSnapshot) -> None:
        """Draw it again."""
        if self._live is not None:
            self._live.update(self._drawn(view), refresh=True)

    def message(self, text: str) -> None:
        """A line above the table."""
        self._console.print(text, markup=False, highlight=False)

    def finish(self, view: ProgressSnapshot) -> None:
        """Leave the whole table and the sum on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        rows = range(len(view.rows))
        for line in table_lines(view, rows, self._peaks, self._console.width):
            # The terminal itself breaks what is too long: nothing of it is lost.
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        for line in summary_lines(view):
            self._console.print(line, markup=False, highlight=False)

    def _drawn(self, view: ProgressSnapshot) -> Text:
        """No higher than the terminal, which would cut it: below the rows stands the status."""
        from rich.text import Text as RichText

        width, height = self._console.size
        below = textwrap.wrap(status(view), width)
        numbers = visible(view, height - len(below) - _OTHER_LINES)
        titles, *rows = table_lines(view, numbers, self._peaks, width)
        drawn = RichText(no_wrap=True, overflow="crop")
        drawn.append(f"{titles}\n", "bold")
        for number, row in zip(numbers, rows, strict=True):
            drawn.append(f"{row}\n", "bold" if number == view.current else "")
        more = more_line(view, numbers)
        return drawn.append("\n".join([*([more] if more else []), *below]))
