"""The site: every page is in its navigation, it is built without a warning, and loads nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import autosched
from autosched.system.release import __version__
from scripts.notebook_pages import write_notebook_page
from scripts.site import INDEX, navigation, put_together
from tests.support.pages import ROOT


def test_every_page_is_in_the_navigation_once(tmp_path):
    put_together(tmp_path)
    index = (tmp_path / f"{INDEX}.md").read_text(encoding="utf-8")
    listed = re.findall(r"^(/\S+)$", index, flags=re.M)
    pages = {f"/{path.relative_to(tmp_path).with_suffix('')}" for path in tmp_path.rglob("*.md")}
    inner = {page for page in pages if page.startswith("/api/")} - {"/api/index"}
    assert sorted(listed) == sorted(pages - inner - {f"/{INDEX}"})
    assert len(listed) == len(set(listed)) > 20


def test_lists_of_the_index_become_the_navigation():
    text = "# Title\n\n[x](x.md)\n\n## Start\n\n- [A](a.md): words\n- [B](../notebooks/b.ipynb)\n"
    start = "\n```{toctree}\n:hidden:\n:caption: Start\n/docs/a\n/notebooks/b\n```\n"
    assert navigation(text).startswith(start)


def test_source_files_that_a_page_links_to_are_there(tmp_path):
    put_together(tmp_path)
    text = (tmp_path / "docs/concepts.md").read_text(encoding="utf-8")
    for name in ("feature_table.py", "decision_process.py"):
        assert f"(../costmodel/{name})" in text
        assert (tmp_path / "costmodel" / name).is_file()


def test_links_to_notebooks_lead_to_their_pages(tmp_path):
    put_together(tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "(notebooks/01_quickstart.md)" in text and ".ipynb" not in text


def test_a_notebook_becomes_a_page(tmp_path):
    outputs = [
        {"output_type": "stream", "text": ["6\n"]},
        {"output_type": "execute_result", "data": {"text/html": "<b>x</b>", "text/plain": "x"}},
        {"output_type": "display_data", "data": {"image/png": "iVBO", "text/plain": "<Figure>"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["print(6)"], "outputs": outputs},
    ]
    notebook = tmp_path / "a.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    write_notebook_page(notebook, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (
        "# Title\n\n````python\nprint(6)\n````\n\n````text\n6\n````\n\n"
        "````{raw} html\n<b>x</b>\n````\n\n![output](page-1-2.png)\n"
    )
    assert (tmp_path / "page-1-2.png").read_bytes()[:3] == b"\x89PN"


def test_the_changelog_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\d+)\.(\d+)\.(\d+)\b", text, flags=re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert ".".join(versions[0]) == project["version"] == __version__
    numbers = [tuple(map(int, version)) for version in versions]
    assert numbers == sorted(numbers, reverse=True)


class Loaded(HTMLParser):
    """What a page makes a browser load, and the targets of its links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a":
            self.links.append(values.get("href", ""))
        elif tag == "link" and "stylesheet" in values.get("rel", ""):
            self.loads.append(values["href"])
        self.loads.append(values.get("src", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(package, reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "scripts.site", folder / "html", folder / "work"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_site_is_built_without_a_warning_and_loads_nothing(site):
    pages = {path: Loaded(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) > 130
    for path, page in pages.items():
        for target in filter(None, page.loads):
            assert urlsplit(target).scheme in ("", "data"), (path, target)
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            other = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert other.exists(), (path, link)
            if parts.fragment and other in pages:
                assert unquote(parts.fragment) in pages[other].anchors, (path, link)
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert re.findall(r"@import|url\(\s*[\"']?(?:https?:)?//", text) == [], style


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_site_describes_what_the_package_exports(site):
    text = (site / "api" / "autosched.html").read_text(encoding="utf-8")
    modules = {path.stem for path in (site / "api").glob("*.html")}
    names = [name for name in autosched.__all__ if f"autosched.{name}" not in modules]
    assert [name for name in names if f'id="autosched.{name}"' not in text] == []
