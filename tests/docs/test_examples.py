"""The examples in docstrings run, and print what they say; what users call most has one."""

from __future__ import annotations

import doctest
import warnings
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import autosched as asd

_PACKAGES: Final = ("autosched", "codegen", "costmodel", "sketch")
# By the modules that they are written in.
MOST_USED: Final = {
    "autosched.api.NamedTarget",
    "autosched.api.compile",
    "autosched.api.extract_tasks",
    "autosched.api.load",
    "autosched.api.tune",
    "autosched.inference_session.InferenceSession",
    "autosched.runtime.module.Module.profile",
    "autosched.runtime.module.Module.run",
    "autosched.runtime.module.Module.save",
    "autosched.task.Task.of",
    "autosched.task.Task.tune",
    "autosched.workloads.builtin.get",
    "autosched.zoo.build.build",
}


def _examples() -> dict[str, doctest.DocTest]:
    root = Path(__file__).parents[2]
    sources = [path for package in _PACKAGES for path in sorted((root / package).rglob("*.py"))]
    names = [
        ".".join(path.relative_to(root).with_suffix("").parts)
        for path in sources
        if ">>>" in path.read_text(encoding="utf-8")
    ]
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in names for test in finder.find(import_module(name), name)]
    return {test.name: test for test in found if test.examples}


EXAMPLES: Final = _examples()


def test_what_is_called_most_has_an_example():
    assert EXAMPLES.keys() >= MOST_USED


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = EXAMPLES[name]
    case.globs = {"asd": asd, "np": np}
    printed: list[str] = []
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        found = doctest.DocTestRunner().run(case, out=printed.append)
    assert found.failed == 0, "".join(printed)
