"""Shares as text in the tables of a report, and the sizes of its charts."""

from __future__ import annotations


def percent(share: float) -> str:
    """``14.2 %``."""
    return f"{100 * share:.1f} %"


def bars_height(rows: int) -> int:
    """Pixels of a chart with a row for each task or kind, not counting its axis."""
    return 20 * max(rows, 2)
