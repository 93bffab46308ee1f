"""The API reference has all public modules: a page for each, and no error is left out."""

from __future__ import annotations

import re

import pytest

from scripts.api_reference import PUBLIC, write_reference
from tests.support.pages import PAGES, ROOT

PACKAGES = ("autosched", "codegen", "costmodel", "sketch")


def test_every_public_module_has_a_page_and_a_line(tmp_path):
    write_reference(tmp_path)
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    lines = dict(re.findall(r"^\| \[`([\w.]+)`\]\(\1\.md\) \| (.+) \|$", index, flags=re.M))
    assert lines.keys() == set(PUBLIC)
    assert all(line.endswith((".", ":")) for line in lines.values())
    for name in PUBLIC:
        page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        assert f".. automodule:: {name}\n" in page


def test_a_module_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ModuleNotFoundError, match=r"autosched\.no_such_module"):
        write_reference(tmp_path, ["autosched.no_such_module"])


def test_what_pages_and_notebooks_import_is_in_the_reference():
    text = "".join(
        path.read_text(encoding="utf-8")
        for path in (*PAGES, *sorted((ROOT / "notebooks").glob("*.ipynb")))
    )
    found = set(re.findall(rf"\bfrom ((?:{'|'.join(PACKAGES)})[\w.]*) import", text))
    assert len(found) > 20
    assert sorted(found - set(PUBLIC)) == []


def test_all_errors_are_in_the_reference():
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("errors.py")]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    assert "sketch.errors" in modules
    assert sorted(modules - set(PUBLIC)) == []
