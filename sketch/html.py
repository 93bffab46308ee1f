"""Results as HTML for notebooks: escaped, small, in the colours of the page, light or dark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape
from typing import Final

# A page should not become slow by one cell; `print` shows everything.
_MOST_ROWS: Final = 60
_LEFT, _RIGHT = "text-align:left;white-space:nowrap", "text-align:right;white-space:nowrap"


def html_table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Collection[int] = (0,),
    notes: Sequence[str] = (),
    strong: int | None = None,
) -> str:
    """A table between a title and notes.

    Args:
        title: above it, on one line.
        header: of the columns.
        rows: cells as text; of many rows the first are shown.
        left: numbers of the columns that are aligned left, others right.
        notes: below it, each on a line.
        strong: number of the row that stands out.
    """
    shown = rows[:_MOST_ROWS]
    hidden = len(rows) - len(shown)
    lines = [*([f"... and {hidden} rows more: print it"] if hidden else []), *notes]
    body = [_row("th", header, left, False)]
    body += [_row("td", row, left, number == strong) for number, row in enumerate(shown)]
    return (
        f"<div><strong>{escape(title)}</strong>"
        f'<div style="overflow-x:auto"><table>{"".join(body)}</table></div>'
        f"{html_lines(*filter(None, lines))}</div>"
    )


def html_lines(*lines: str) -> str:
    """Lines of text."""
    return "".join(f"<div>{escape(line)}</div>" for line in lines)


def html_text(title: str, text: str) -> str:
    """Text with its own line breaks, below a title."""
    return f"<div><strong>{escape(title)}</strong><pre>{escape(text)}</pre></div>"


def _row(kind: str, cells: Sequence[str], left: Collection[int], strong: bool) -> str:
    weight = ";font-weight:bold" if strong else ""
    found = (
        f'<{kind} style="{_LEFT if column in left else _RIGHT}{weight}">{escape(cell)}</{kind}>'
        for column, cell in enumerate(cells)
    )
    return f"<tr>{''.join(found)}</tr>"
