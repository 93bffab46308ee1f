"""Build the documentation as a site that is read without a network: ``python -m scripts.site``.

The pages of docs/, the README, CONTRIBUTING, the changelog, the notebooks and the API reference are
put together in one folder, in the places that they have in the repository, and Sphinx makes HTML of
them.  The lists of ``docs/index.md`` are the navigation.  Every warning is an error.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from autosched.system.release import __version__
from scripts.api_reference import write_reference
from scripts.notebook_pages import write_notebook_page

ROOT: Final = Path(__file__).parents[1]
INDEX: Final = "docs/index"
# Pages beside docs/ and notebooks/.
_FILES: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
_SECTION: Final = re.compile(r"^## (.+)$", flags=re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)\s#]+\.(?:md|ipynb))\)")
_SOURCE: Final = re.compile(r"\]\(([^)\s#:]+\.py)\)")
_SETTINGS: Final[dict[str, Any]] = {
    "project": "autosched",
    "release": __version__,
    "html_title": f"autosched {__version__}",
    "root_doc": INDEX,
    "extensions": ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"],
    "myst_heading_anchors": 4,
    "autodoc_default_options": {"members": True, "show-inheritance": True},
    "autodoc_member_order": "bysource",
    "autodoc_preserve_defaults": True,
    "maximum_signature_line_length": 80,
    "napoleon_use_ivar": True,
    "python_use_unqualified_type_names": True,
    # What the package exports is described on its own page, too: a link may lead to either.
    "suppress_warnings": ["ref.python"],
    "html_theme": "furo",
    "html_copy_source": False,
    "html_show_sphinx": False,
}


def put_together(folder: Path) -> None:
    """Write all pages as Markdown into ``folder``, which is emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name in _FILES:
        shutil.copy2(ROOT / name, folder / name)
    notebooks = folder / "notebooks"
    notebooks.mkdir()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        write_notebook_page(path, notebooks / f"{path.stem}.md")
    write_reference(folder / "api")
    for page in (*folder.glob("*.md"), *(folder / "docs").glob("*.md")):
        _link_notebooks(page)
        _copy_linked_sources(page, folder)
    with (folder / f"{INDEX}.md").open("a", encoding="utf-8") as index:
        index.write(navigation((ROOT / f"{INDEX}.md").read_text(encoding="utf-8")))


def navigation(index: str) -> str:
    """What Sphinx reads the order of the pages from: the lists of the index, by their headings."""
    _, *parts = _SECTION.split(index)
    trees = [
        _tree(title, [_document(link) for link in _LINK.findall(text)])
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    ]
    return "".join([*trees, _tree("API reference", ["/api/index"])])


def build(folder: Path, work: Path) -> int:
    """Write the site into ``folder``; returns 0, or what to exit with after a warning.

    Args:
        folder: of the site.
        work: of the pages that are put together, and of what Sphinx keeps for the next time.
    """
    from sphinx.application import Sphinx

    put_together(work / "pages")
    app = Sphinx(
        work / "pages", None, folder, work / "doctrees", "html", _SETTINGS,
        status=None, warning=sys.stderr, warningiserror=True, parallel=len(os.sched_getaffinity(0)),
    )  # fmt: skip
    app.build()
    return int(app.statuscode)


def _link_notebooks(page: Path) -> None:
    """Links to notebooks lead to their pages."""
    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r"(\bnotebooks/\w+)\.ipynb", r"\1.md", text), encoding="utf-8")


def _copy_linked_sources(page: Path, folder: Path) -> None:
    """Source files that a page links to are where the page looks for them."""
    for link in _SOURCE.findall(page.read_text(encoding="utf-8")):
        copy = Path(os.path.normpath(page.parent / link))
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / copy.relative_to(folder), copy)


def _document(link: str) -> str:
    """What Sphinx calls the page that the index links to."""
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(INDEX), link))
    return f"/{posixpath.splitext(whole)[0]}"


def _tree(title: str, pages: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", *pages, "```", ""])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the site goes")
    parser.add_argument("work", type=Path, help="where the pages are put together")
    args = parser.parse_args()
    code = build(args.folder, args.work)
    print(args.folder / f"{INDEX}.html")
    sys.exit(code)


if __name__ == "__main__":
    main()
