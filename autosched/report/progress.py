"""Showing the progress of tuning: a live table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

from autosched.report.events import Progress, ProgressSnapshot, Quiet, TaskRow
from autosched.system.stability import MOST_DEVIATION, relative_deviation, share

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

__all__ = ["PlainProgress", "Progress", "Quiet", "TableProgress", "choose_progress"]

_LINE_EVERY_S: Final = 5.0
# Rows around the task at work that fit a usual terminal; the summary at the end shows them all.
_VISIBLE_ROWS: Final = 24


def choose_progress(
    quiet: bool = False, peak_flops: float | None = None, stream: TextIO | None = None
) -> Progress:
    """A table on a terminal, plain lines elsewhere, nothing when ``quiet``.

    ``peak_flops``: FLOP/s of the machine, see ``runtime.probes.peak``; None leaves the column out.
    """
    out = stream or sys.stdout
    if quiet:
        return Quiet()
    return TableProgress(peak_flops) if out.isatty() else PlainProgress(out, peak_flops)


class PlainProgress:
    """Lines of text: one every few seconds, then a table.

    Args:
        stream: where to.
        peak_flops: of the machine, for the share of the peak.
        every_s: least time between two lines.
        clock: in seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        peak_flops: float | None = None,
        every_s: float = _LINE_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._peak = stream, peak_flops
        self._every_s, self._clock = every_s, clock
        self._next_s = 0.0

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
        rows = [cells_of(n, row, self._peak, retimed) for n, row in enumerate(view.rows)]
        cells = [columns(self._peak, retimed), *rows]
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
        print(text, file=self._stream, flush=True)


class TableProgress:
    """A table that is redrawn in place (rich)."""

    def __init__(self, peak_flops: float | None = None, console: Console | None = None) -> None:
        from rich.console import Console as RichConsole

        self._peak = peak_flops
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
        for number, title in enumerate(columns(self._peak, view.retimed)):
            left = number in (1, 2)
            table.add_column(
                title, justify="left" if left else "right", no_wrap=not left, overflow="ellipsis"
            )
        for number in visible(view, everything):
            style = "bold" if number == view.current else ""
            cells = cells_of(number, view.rows[number], self._peak, view.retimed)
            table.add_row(*(Text(cell) for cell in cells), style=style)
        return table


def visible(view: ProgressSnapshot, everything: bool) -> list[int]:
    """Numbers of the rows to show: all, or a window around the task at work."""
    count = len(view.rows)
    if everything or count <= _VISIBLE_ROWS:
        return list(range(count))
    first = (view.current or 0) - _VISIBLE_ROWS // 2
    first = min(max(0, first), count - _VISIBLE_ROWS)
    return list(range(first, first + _VISIBLE_ROWS))


def columns(peak_flops: float | None, retimed: bool = False) -> list[str]:
    """Titles of the table; ``retimed``: of one with re-timed tasks, whose speed is the re-timed."""
    peak = [] if peak_flops is None else ["peak"]
    times = ["re-timed ms", "std %", "re-timed GFLOPS"] if retimed else ["last ms", "GFLOPS"]
    return ["id", "task", "shape", "weight", "search best ms", *times, *peak, "trials", ""]


def cells_of(
    number: int, row: TaskRow, peak_flops: float | None, retimed: bool = False
) -> list[str]:
    """One row of the table as text.

    Args:
        number: of the task, from 1.
        row: what is known of it.
        peak_flops: of the machine, in FLOP/s; None: unknown.
        retimed: show the times of the comparison at the end.
    """
    speed = row.flops_per_s
    part = [] if peak_flops is None else [f"{speed / peak_flops:.0%}" if speed else "-"]
    times = _retimed_cells(row) if retimed else [_ms(row.last_s)]
    failed = f" ({row.failed} failed)" if row.failed else ""
    return [
        str(number), row.name, row.shapes, f"{row.weight:g}",
        _ms(row.best_s), *times, f"{speed / 1e9:.1f}" if speed else "-", *part,
        str(row.trials), f"{row.stopped}{failed}".strip(),
    ]  # fmt: skip


def _retimed_cells(row: TaskRow) -> list[str]:
    if row.retimed is None:
        return ["-", "-"]
    deviation = relative_deviation(row.retimed.seconds)
    return [_ms(row.retimed.median), "-" if deviation is None else f"{100 * deviation:.1f}"]


def status(view: ProgressSnapshot) -> str:
    """One line: trials, estimated total, times."""
    left = f", {duration(view.left_s)} left" if math.isfinite(view.left_s) else ""
    limit = "" if view.trials_limit is None else f"/{view.trials_limit}"
    return (
        f"{view.trials}{limit} trials, estimated total {milliseconds(view.total_s)}, "
        f"{duration(view.elapsed_s)} elapsed{left}"
    )


def summary_lines(view: ProgressSnapshot) -> list[str]:
    """The last lines: how stable the re-timed times are, and the sum."""
    reason = f" ({view.stopped})" if view.stopped else ""
    kind = " (re-timed)" if view.retimed else ""
    total = (
        f"estimated total {milliseconds(view.total_s)}{kind} after {view.trials} trials, "
        f"{duration(view.elapsed_s)}{reason}"
    )
    return [*([stability_line(view)] if view.retimed else []), total]


def stability_line(view: ProgressSnapshot) -> str:
    """``stable: ...``, or which of the re-timed tasks vary and what disturbed them."""
    varying, conditions = view.unstable, str(view.conditions)
    if not varying and not view.conditions.disturbed:
        rounds = f"std of the re-timed at most {share(MOST_DEVIATION)} of median"
        return "stable: " + ", ".join(part for part in (rounds, conditions) if part)
    spread = f"std of {', '.join(varying)} of median" if varying else ""
    found = ", ".join(part for part in (spread, conditions) if part)
    return f"unstable: {found}; tune or bench again when the machine is quiet"


def limits(view: ProgressSnapshot) -> str:
    """The budget in words."""
    parts = [] if view.trials_limit is None else [f"{view.trials_limit} trials"]
    parts += [] if view.budget_s is None else [duration(view.budget_s)]
    return "at most " + ", ".join(parts) if parts else "until nothing improves"


def duration(seconds: float) -> str:
    """``1:02:03`` or ``2:03``."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    tail = f"{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
    return f"{hours}:{tail}" if hours else tail


def milliseconds(seconds: float) -> str:
    """With unit, or ``unknown``."""
    return f"{_ms(seconds)} ms" if math.isfinite(seconds) else "unknown"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g}" if math.isfinite(seconds) else "-"
