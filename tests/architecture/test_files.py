"""Sizes and names of files, and what no file may contain."""

import re
from statistics import median

LONGEST = 400
BINARY = {".png", ".npz", ".onnx", ".asd"}

# In pieces, so that this file does not contain what it looks for.
_INDEX_HOSTS = "|".join(("py" + r"pi\.org", "python" + "hosted", r"registry\.np" + "m"))
_HOME = r"(?<![\w.])/(?:home|Users|" + "wo" + "rk|ro" + r"ot)/"
FORBIDDEN = {
    "host of a package index": re.compile(_INDEX_HOSTS, re.IGNORECASE),
    "absolute path of somebody's machine": re.compile(_HOME),
}
UNFINISHED = re.compile(
    "|".join(("NotImplemented" + "Error", "TO" + "DO", "FIX" + "ME", "XX" + "X"))
)


def test_no_file_is_too_long(python_sources):
    sizes = {s.path: s.text.count("\n") for s in python_sources}
    assert {path: n for path, n in sizes.items() if n > LONGEST} == {}


def test_most_files_are_short(package_sources):
    assert median(source.text.count("\n") for source in package_sources) < 130


def test_no_catch_all_modules(package_sources):
    vague = re.compile(r"/(utils?|helpers?|misc|common)\.py$")
    assert [s.path for s in package_sources if vague.search(s.path)] == []


def test_test_files_have_unique_names(python_sources):
    names = [s.path.rsplit("/", 1)[-1] for s in python_sources if "/test_" in s.path]
    assert sorted(names) == sorted(set(names))


def test_unit_tests_mirror_the_folders_of_the_packages(python_sources, root):
    folders = {s.path.rsplit("/", 1)[0] for s in python_sources if s.path.startswith("tests/unit/")}
    tested = {folder.removeprefix("tests/unit/") for folder in folders}
    assert len(tested) > 30
    assert sorted(folder for folder in tested if not (root / folder).is_dir()) == []


def test_what_tests_share_is_in_one_package(python_sources):
    outside = [
        s.path
        for s in python_sources
        if s.path.startswith("tests/") and not s.path.startswith("tests/support/")
    ]
    kinds = ("test_", "conftest.py")
    assert [path for path in outside if not path.rsplit("/", 1)[-1].startswith(kinds)] == []


def test_nothing_is_left_unfinished(package_sources):
    assert [s.path for s in package_sources if UNFINISHED.search(s.text)] == []


def test_no_file_names_a_private_place(tracked_files, root):
    found = []
    for path in tracked_files:
        if path.suffix in BINARY:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for what, pattern in FORBIDDEN.items():
            found += [
                f"{path.relative_to(root)}: {what} {m.group()!r}" for m in pattern.finditer(text)
            ]
    assert found == []
