"""The API reference is built from the docstrings of all public modules."""

from __future__ import annotations

import re
import warnings

import pytest

pytest.importorskip("pdoc", reason="pdoc makes the reference")

from scripts.api_reference import PUBLIC, build
from tests.support.pages import PAGES, ROOT

PACKAGES = ("autosched", "codegen", "costmodel", "sketch")


@pytest.mark.slow
def test_every_public_name_has_a_page(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # how pdoc tells what it could not read
        index = build(tmp_path).read_text(encoding="utf-8")
    for name in PUBLIC:
        page = tmp_path / f"{name.replace('.', '/')}.html"
        assert page.relative_to(tmp_path).as_posix() in index
        assert "docstring" in page.read_text(encoding="utf-8")


def test_the_package_documents_what_users_import(tmp_path):
    import autosched

    build(tmp_path, ["autosched"])
    text = (tmp_path / "autosched.html").read_text(encoding="utf-8")
    names = [name for name in autosched.__all__ if f"autosched.{name}" not in PUBLIC]
    assert [name for name in names if f'id="{name}"' not in text] == []


def test_a_module_that_cannot_be_imported_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match=r"autosched\.no_such_module"):
        build(tmp_path, ["autosched.no_such_module"])


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
