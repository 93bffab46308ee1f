"""Plain-text tables: columns as wide as their widest cell, numbers to the right; sizes as text."""

from __future__ import annotations

from collections.abc import Sequence

_GAP = "  "


def render_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> str:
    """Lines of a table; the columns numbered in ``left`` are aligned left, others right."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def line_of(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return _GAP.join(padded).rstrip()

    rule = _GAP.join("-" * width for width in widths)
    return "\n".join([line_of(header), rule, *(line_of(row) for row in rows)])


def shorten(text: str, width: int) -> str:
    """``text``, cut in the middle to at most ``width`` characters."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def size_text(size_bytes: int) -> str:
    """``5.3 MB``, ``3.2 kB`` of what is small, or ``40 B``."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e5 else f"{size_bytes / 1e3:.1f} kB"
