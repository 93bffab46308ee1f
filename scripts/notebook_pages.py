"""Notebooks with their outputs as Markdown pages."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def write_notebook_page(notebook: Path, page: Path) -> None:
    """Write a notebook as MyST Markdown, its images beside it.

    Args:
        notebook: an .ipynb file with outputs.
        page: the .md file; its folder exists.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    parts = [part for number, cell in enumerate(cells) for part in _cell(cell, page, number)]
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _cell(cell: Mapping[str, Any], page: Path, number: int) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield _fenced(source, "python")
    for place, output in enumerate(cell["outputs"]):
        yield _output(output, page.with_name(f"{page.stem}-{number}-{place}.png"))


def _output(output: Mapping[str, Any], image: Path) -> str:
    """The richest form of an output; ``image``: the file that an image goes to."""
    data = output.get("data", {})
    if "image/png" in data:
        image.write_bytes(base64.b64decode(data["image/png"]))
        return f"![output]({image.name})"
    if "text/html" in data:
        return _fenced("".join(data["text/html"]), "{raw} html")
    return _fenced("".join(data.get("text/plain", output.get("text", ""))), "text")


def _fenced(text: str, language: str) -> str:
    return f"````{language}\n{text.rstrip()}\n````"
