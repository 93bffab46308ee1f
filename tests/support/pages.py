"""Pages of documentation as tests see them: their snippets, commands and links."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)

_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where its text is in the page, and in which language."""

    language: str
    text: str
    start: int
    end: int

    @property
    def needs_torch(self) -> bool:
        return (
            self.language == "python" and re.search(r"^import torch", self.text, re.M) is not None
        )


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown file."""

    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def blocks(self) -> list[Block]:
        return [
            Block(found[1], found[2], found.start(2), found.end(2))
            for found in _BLOCK.finditer(self.text)
        ]

    @property
    def commands(self) -> list[str]:
        """Lines of console blocks that call autosched; without comments."""
        lines = [
            line.split("#")[0].strip()
            for block in self.blocks
            if block.language == "console"
            for line in block.text.split("\n")
        ]
        return [line for line in lines if line.startswith("autosched ")]

    @property
    def links(self) -> list[str]:
        """Targets of links to files of the repository, without anchors."""
        found = [link.split("#")[0] for link in _LINK.findall(self.text)]
        return [link for link in found if link and "://" not in link]

    def __str__(self) -> str:
        return self.path.stem


def arguments(command: str) -> list[str]:
    """Of a command line, without the program's name."""
    return shlex.split(command)[1:]


def run(
    page: Page,
    shorter: Mapping[str, str],
    torch: bool,
    namespace: dict[str, Any] | None = None,
) -> Iterator[tuple[Block, str]]:
    """Run the page's Python snippets in order in one namespace.

    Args:
        page: whose snippets run, in the current directory.
        shorter: what makes snippets take minutes, and what stands for it here.
        torch: only snippets that import torch, or only the others.
        namespace: where the snippets' names go; None: nobody needs them.

    Yields:
        each block of text that follows a snippet at once, and what that snippet printed.
    """
    namespace = {} if namespace is None else namespace
    printed: str | None = None
    for block in page.blocks:
        if block.language == "text" and printed is not None:
            yield block, printed
        printed = None
        if block.language == "python" and block.needs_torch == torch:
            printed = _execute(page, block, shorter, namespace)


def _execute(
    page: Page, block: Block, shorter: Mapping[str, str], namespace: dict[str, Any]
) -> str:
    source = block.text
    for long, short in shorter.items():
        source = source.replace(long, short)
    # Errors point at the line of the page.
    blank = "\n" * page.text.count("\n", 0, block.start)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(blank + source, str(page.path), "exec"), namespace)
    return output.getvalue()
