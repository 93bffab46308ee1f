"""Sections as one HTML document: every text in it is escaped, and it loads nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import count
from typing import Any, Final

from autosched.page.blocks import (
    PageBlock,
    PageChart,
    PageCode,
    PageSection,
    PageTable,
    PageText,
)
from autosched.system.json_values import finite_values

# A browser that knows this fetches nothing, whatever the file says.  Vega makes functions of its
# own expressions, which is what 'unsafe-eval' is for.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' 'unsafe-eval'; img-src data:"
)
# A page that is served asks for newer ones of itself.
_LIVE_POLICY: Final = f"{_POLICY}; connect-src 'self'"
# Or a browser asks for one.
_NO_ICON: Final = '<link rel="icon" href="data:,">'
# Rows of a table; the log has all.
_MOST_ROWS: Final = 500


def document(
    title: str,
    intro: str,
    sections: Sequence[PageSection],
    library: str,
    version: str | None = None,
) -> str:
    """The page.

    Args:
        title: of the page.
        intro: a sentence below it.
        sections: in order.
        library: JavaScript that defines ``vegaEmbed``.
        version: of a page that is served, and asks for newer ones; None: it is a file.
    """
    live = version is not None
    scripts = [library, _resource("page.js"), *([_resource("live.js")] if live else [])]
    numbers = count(1)
    links = "".join(f'<li><a href="#{s.anchor}">{escape(s.title)}</a></li>' for s in sections)
    body = "".join(_section(section, numbers) for section in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_LIVE_POLICY if live else _POLICY}">'
        f"{_NO_ICON if live else ''}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_resource('page.css')}</style></head>\n"
        '<body><a class="skip" href="#main">Skip to the sections</a>'
        f"<header><h1>{escape(title)}</h1><p>{escape(intro)}</p>"
        '<button type="button" id="look">Light or dark</button>'
        f"{'' if version is None else _status(version)}</header>\n"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main id="main">{body}</main>\n'
        "<noscript><p>Charts need JavaScript; the tables below each of them do not.</p></noscript>"
        + "\n".join(f"<script>{_as_script(script)}</script>" for script in scripts)
        + "</body></html>\n"
    )


def _status(version: str) -> str:
    """What the script of a live page reads its version from, and writes its state to."""
    text = "Live: this page follows the log."
    return f'<p id="live" role="status" data-version="{escape(version)}">{text}</p>'


def _resource(name: str) -> str:
    return files("autosched.page").joinpath(name).read_text(encoding="utf-8")


def _as_script(code: str) -> str:
    """Code that does not end the element that it is in: such texts are in strings only."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _as_data(value: Any) -> str:
    """JSON for a script element, which ends at the first ``</script`` whatever surrounds it.

    Charts leave out what has no value.
    """
    text = json.dumps(finite_values(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _section(section: PageSection, numbers: Any) -> str:
    blocks = "".join(_block(block, numbers) for block in section.blocks)
    title = escape(section.title)
    return (
        f'<section aria-labelledby="{section.anchor}">'
        f'<h2 id="{section.anchor}">{title}</h2>{blocks}</section>\n'
    )


def _block(block: PageBlock, numbers: Any) -> str:
    match block:
        case PageText():
            return f"<p>{escape(block.text)}</p>"
        case PageTable():
            return _table(block)
        case PageCode():
            return (
                f"<details><summary>{escape(block.title)}</summary>"
                f'<pre tabindex="0">{escape(block.text)}</pre></details>'
            )
        case PageChart():
            return _chart(block, next(numbers))


def _chart(chart: PageChart, number: int) -> str:
    return (
        f'<figure id="chart-{number}" data-kind="{chart.kind}">'
        f"<figcaption>{escape(chart.title)}</figcaption>"
        f'<div class="controls"></div>'
        f'<div class="scroll"><div class="chart" role="img" aria-label="{escape(chart.alt)}"></div>'
        f'</div><script type="application/json">{_as_data(chart.spec)}</script>'
        f"<details><summary>The same as a table</summary>{_table(chart.table)}</details></figure>"
    )


def _table(table: PageTable) -> str:
    rows = table.rows[:_MOST_ROWS]
    caption = table.caption
    if len(rows) < len(table.rows):
        caption += f" (the first {len(rows)} of {len(table.rows)} rows)"
    header = "".join(
        f'<th scope="col"{_side(table, column)}>{escape(cell)}</th>'
        for column, cell in enumerate(table.header)
    )
    body = "".join(f"<tr>{_cells(table, row)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cells(table: PageTable, row: tuple[str, ...]) -> str:
    return "".join(
        f'<th scope="row"{_side(table, column)}>{escape(cell)}</th>'
        if column == 0
        else f"<td{_side(table, column)}>{escape(cell)}</td>"
        for column, cell in enumerate(row)
    )


def _side(table: PageTable, column: int) -> str:
    return ' class="left"' if column in table.left else ""
