"""What a page is made of, as data: sections of text, tables, charts and code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PageText:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of text.

    Attributes:
        caption: says what it shows.
        header: of the columns.
        rows: cells.
        left: numbers of the columns that are aligned left, others right.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class PageChart:
    """A chart that the reader's browser draws, over the table that says the same.

    Attributes:
        title: above it.
        alt: what it shows, for those who do not see it.
        spec: in Vega-Lite, without its colours; or what ``landscape`` describes.
        table: its data, or what follows from them where they are too many.
        kind: "chart", or "landscape": a chart whose axes the reader chooses.
    """

    title: str
    alt: str
    spec: Mapping[str, Any]
    table: PageTable
    kind: str = "chart"


@dataclass(frozen=True, slots=True)
class PageCode:
    """Text with its own line breaks, folded away under a title."""

    title: str
    text: str


PageBlock = PageText | PageTable | PageChart | PageCode


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section.

    Attributes:
        anchor: what links call it.
        title: its heading.
        blocks: in order.
    """

    anchor: str
    title: str
    blocks: tuple[PageBlock, ...]
