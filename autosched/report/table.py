"""The table of tuning as text: its columns and cells, and the lines around it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from autosched.report.events import ProgressSnapshot, TaskRow
from autosched.runtime.peaks import Peaks
from autosched.system.numbers import counted, milliseconds, significant
from autosched.system.stability import MOST_DEVIATION, relative_deviation, share

# Columns in the order of their importance: where they do not all fit, later ones are left out.
_IMPORTANCE: Final = (
    "task", "re-timed ms", "search best ms", "trials", "peak", "id", "", "last ms", "weight",
    "re-timed GFLOPS", "GFLOPS", "shape", "std %",
)  # fmt: skip
LEFT: Final = (1, 2)
"""Columns of text: the name of a task, and its shapes."""
_GAP: Final = "  "


def visible(view: ProgressSnapshot, most: int) -> list[int]:
    """Numbers of the rows to show, in the order of the tasks, and at least one.

    Where there are more than ``most``, one less than that, for ``more_line``: the task at work, and
    those that take most of the total.
    """
    count = len(view.rows)
    if count <= most:
        return list(range(count))
    first = sorted(range(count), key=lambda n: (n != view.current, -_known_s(view.rows[n]), n))
    return sorted(first[: max(1, most - 1)])


def _known_s(row: TaskRow) -> float:
    """Seconds of the total; 0 where they are not known yet."""
    return row.weight * row.seconds if math.isfinite(row.seconds) else 0.0


def more_line(view: ProgressSnapshot, shown: Sequence[int]) -> str:
    """Says how many tasks are not among those shown; "" where all are."""
    left = len(view.rows) - len(shown)
    return f"... {left} more {'task' if left == 1 else 'tasks'}" if left else ""


def table_lines(
    view: ProgressSnapshot,
    numbers: Iterable[int],
    peaks: Peaks | None,
    width: int | None = None,
) -> list[str]:
    """The titles and some rows as text.

    Args:
        view: has the rows.
        numbers: of those to show.
        peaks: of the machine; None: unknown.
        width: characters of a line.  Columns that do not fit are left out, but never the names;
            None: any.
    """
    lines = [columns(peaks, view.retimed)]
    lines += [cells_of(number, view.rows[number], peaks, view.retimed) for number in numbers]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    kept = _fitting(lines[0], widths, width)
    return [
        _GAP.join(
            line[n].ljust(widths[n]) if n in LEFT else line[n].rjust(widths[n]) for n in kept
        ).rstrip()
        for line in lines
    ]


def _fitting(titles: Sequence[str], widths: Sequence[int], width: int | None) -> list[int]:
    """Numbers of the columns that are shown."""
    kept: list[int] = []
    used = 0
    for title in _IMPORTANCE:
        if title not in titles:
            continue
        column = titles.index(title)
        needed = used + widths[column] + len(_GAP) * bool(kept)
        if width is None or not kept or needed <= width:
            kept.append(column)
            used = needed
    return sorted(kept)


def columns(peaks: Peaks | None, retimed: bool = False) -> list[str]:
    """Titles of the table; ``retimed``: of one with re-timed tasks, whose speed is the re-timed."""
    peak = [] if peaks is None else ["peak"]
    times = ["re-timed ms", "std %", "re-timed GFLOPS"] if retimed else ["last ms", "GFLOPS"]
    return ["id", "task", "shape", "weight", "search best ms", *times, *peak, "trials", ""]


def cells_of(number: int, row: TaskRow, peaks: Peaks | None, retimed: bool = False) -> list[str]:
    """One row of the table as text.

    Args:
        number: of the task, from 1.
        row: what is known of it.
        peaks: of the machine; None: unknown.
        retimed: show the times of the comparison at the end.
    """
    speed = row.flops_per_s
    part = [] if peaks is None else [f"{speed / peaks.of(row.unit):.0%}" if speed else "-"]
    times = _retimed_cells(row) if retimed else [milliseconds(row.last_s)]
    failed = f" ({row.failed} failed)" if row.failed else ""
    return [
        str(number), row.name, row.shapes, f"{row.weight:g}",
        milliseconds(row.best_s), *times, significant(speed / 1e9, 1) if speed else "-", *part,
        str(row.trials), f"{row.stopped}{failed}".strip(),
    ]  # fmt: skip


def _retimed_cells(row: TaskRow) -> list[str]:
    if row.retimed is None:
        return ["-", "-"]
    deviation = relative_deviation(row.retimed.seconds)
    return [
        milliseconds(row.retimed.median),
        "-" if deviation is None else f"{100 * deviation:.1f}",
    ]


def status(view: ProgressSnapshot) -> str:
    """One line: trials, estimated total, times."""
    left = f", {duration(view.left_s)} left" if math.isfinite(view.left_s) else ""
    limit = view.trials_limit
    done = counted(view.trials, "trial") if limit is None else f"{view.trials}/{limit} trials"
    return (
        f"{done}, estimated total {with_unit(view.total_s)}, "
        f"{duration(view.elapsed_s)} elapsed{left}"
    )


def summary_lines(view: ProgressSnapshot) -> list[str]:
    """The last lines: how stable the re-timed times are, and the sum."""
    reason = f" ({view.stopped})" if view.stopped else ""
    kind = " (re-timed)" if view.retimed else ""
    total = (
        f"estimated total {with_unit(view.total_s)}{kind} after {counted(view.trials, 'trial')}, "
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
    parts = [] if view.trials_limit is None else [counted(view.trials_limit, "trial")]
    parts += [] if view.budget_s is None else [duration(view.budget_s)]
    return "at most " + ", ".join(parts) if parts else "until nothing improves"


def duration(seconds: float) -> str:
    """``1:02:03`` or ``2:03``."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    tail = f"{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
    return f"{hours}:{tail}" if hours else tail


def with_unit(seconds: float) -> str:
    """With unit, or ``unknown``."""
    return f"{milliseconds(seconds)} ms" if math.isfinite(seconds) else "unknown"
