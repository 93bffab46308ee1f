"""The examples in the docstrings of what users call most run, and print what they say."""

from __future__ import annotations

import doctest
import warnings

import numpy as np
import pytest

import autosched as asd

EXAMPLES = {
    "asd.InferenceSession": asd.InferenceSession,
    "asd.Target": asd.Target,
    "asd.compile": asd.compile,
    "asd.extract_tasks": asd.extract_tasks,
    "asd.load": asd.load,
    "asd.research.compare": asd.research.compare,
    "asd.study.replay_study": asd.study.replay_study,
    "asd.tune": asd.tune,
    "asd.workloads.get": asd.workloads.get,
    "asd.zoo.build": asd.zoo.build,
    "Module.profile": asd.Module.profile,
    "Module.run": asd.Module.run,
    "Module.save": asd.Module.save,
    "Task.of": asd.Task.of,
    "Task.tune": asd.Task.tune,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = EXAMPLES[name].__doc__
    case = doctest.DocTestParser().get_doctest(text, {"asd": asd, "np": np}, name, None, None)
    printed: list[str] = []
    assert case.examples
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        found = doctest.DocTestRunner().run(case, out=printed.append)
    assert found.failed == 0, "".join(printed)
