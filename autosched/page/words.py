"""Numbers of a report: as text in its tables, and the sizes of its charts."""

from __future__ import annotations


def number(value: float) -> str:
    """Four digits; all of those before the point."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def milliseconds(seconds: float) -> str:
    """Four digits of milliseconds, without the unit."""
    return number(seconds * 1e3)


def percent(share: float) -> str:
    """``14.2 %``."""
    return f"{100 * share:.1f} %"


def bars_height(rows: int) -> int:
    """Pixels of a chart with a row for each task or kind, not counting its axis."""
    return 20 * max(rows, 2)
