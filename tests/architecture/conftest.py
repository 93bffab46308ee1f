"""The sources of the repository, read and parsed once."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("autosched", "sketch", "costmodel", "codegen")


@dataclass(frozen=True)
class Source:
    """A Python file: path relative to the repository's root, and text; parsed when it is asked."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def package(self) -> str:
        return self.path.split("/")[0]

    @property
    def module(self) -> str:
        name = self.path.removesuffix(".py").replace("/", ".")
        return name.removesuffix(".__init__")

    def at(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 0)}"


def _tracked() -> list[Path]:
    """Files that git tracks or would track; all files where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
        names = sorted(set(listing.stdout.split("\0")))
    except (OSError, subprocess.CalledProcessError):
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py")]
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


@pytest.fixture(scope="session")
def tracked_files() -> list[Path]:
    return _tracked()


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def python_sources(tracked_files: list[Path]) -> list[Source]:
    return list(_read(path for path in tracked_files if path.suffix == ".py"))


@pytest.fixture(scope="session")
def package_sources(python_sources: list[Source]) -> list[Source]:
    """The sources of the four packages, without tests and benchmarks."""
    return [source for source in python_sources if source.package in PACKAGES]


def _read(paths: Iterator[Path]) -> Iterator[Source]:
    for path in paths:
        text = path.read_text(encoding="utf-8")
        yield Source(str(path.relative_to(ROOT)), text)
