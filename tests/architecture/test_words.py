"""One word means one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

# Names that stand in two modules, each with its reason.
TWICE = {
    "Loop": "autosched.host.operators.loop replaces onnx's class, which is found by its name",
    "Pad": "autosched.host.operators.pad replaces onnx's class, too",
    "Scan": "autosched.host.operators.scan does, too",
}
# Words for what the field has words for (docs/glossary.md); also as parts of names.
LITERARY = re.compile(
    r"(?<![a-z])(owed|debts?|dear|dearer|settle[ds]?|unsettled|hopeless|memory_room|least_traffic|"
    r"nobody knows|for ever|drown\w*|forgives?|lent)(?![a-z])"
)
MODULES = ("closing", "notices")


def test_no_public_class_name_stands_in_two_modules(package_sources):
    places: defaultdict[str, list[str]] = defaultdict(list)
    for source in package_sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(source.at(node))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in TWICE} == {}
    assert set(TWICE) <= set(twice)


def test_names_and_comments_have_the_words_of_the_field(python_sources):
    this = "tests/architecture/test_words.py"
    wrong = [
        f"{source.path}:{number}: {line.strip()}"
        for source in python_sources
        if source.path != this
        for number, line in enumerate(source.text.splitlines(), start=1)
        if LITERARY.search(line)
    ]
    assert wrong == []
    assert [s.path for s in python_sources if s.module.split(".")[-1] in MODULES] == []


def test_pages_have_the_words_of_the_field(root):
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]
    assert len(pages) > 10
    wrong = [
        f"{page.name}:{number}: {line.strip()}"
        for page in pages
        for number, line in enumerate(page.read_text().splitlines(), start=1)
        if LITERARY.search(line.lower())
    ]
    assert wrong == []


def test_terms_of_the_glossary_are_classes(root, package_sources):
    text = (root / "docs" / "glossary.md").read_text()
    terms = dict(re.findall(r"^\| \*\*(.+?)\*\* \| `(.+?)` \|", text, re.MULTILINE))
    assert len(terms) >= 20
    classes = {
        f"{source.module}.{node.name}"
        for source in package_sources
        for node in source.tree.body
        if isinstance(node, ast.ClassDef)
    }
    assert {name for name in terms.values() if name not in classes} == set()
    rows = [line for line in text.splitlines() if line.startswith("| **")]
    assert len(rows) == len(terms), "a row without a class, or two of one term"
