"""Signatures of the public functions: what a type checker says of calls of users."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import autosched as asd
from autosched import study
from autosched.search.options import SearchOptions

ROOT = Path(__file__).parents[3]
CALLS = """\
import autosched as asd

net = asd.zoo.build("mlp")
reveal_type(asd.tune(net, trials=3))
reveal_type(asd.tune([net], trials=3))
asd.tune(net, trails=3)
asd.tune([net], trails=3)
asd.tune(net, trials="3")
asd.tune(net, "cpu", "10m", extra_features=[asd.ExtraFeature("depth", lambda statement: 1.0)])
asd.tune(net, "cpu", "10m", extra_features=[len])
asd.compile(net, quik=True)
"""


@pytest.mark.parametrize(
    "function",
    [asd.tune, asd.compile, asd.load, asd.from_onnx, asd.from_torch, asd.Task, asd.Task.tune,
     asd.Task.module, study.replay_study, study.evaluate_model, SearchOptions],
)  # fmt: skip
def test_no_parameter_takes_whatever_it_is_given(function: object) -> None:
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}  # type: ignore[arg-type]
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}


def test_a_type_checker_finds_misspelled_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = pytest.importorskip("mypy.api")
    snippet = tmp_path / "calls.py"
    snippet.write_text(CALLS)
    monkeypatch.chdir(ROOT)
    text, _, status = api.run([str(snippet), "--follow-imports=silent", "--no-error-summary"])
    lines = [line.partition("calls.py:")[2] for line in text.splitlines()]
    errors = [line for line in lines if " error: " in line]
    assert status == 1 and {int(line.partition(":")[0]) for line in errors} == {6, 7, 8, 10, 11}, (
        text
    )
    notes = [line for line in lines if "Revealed type" in line]
    assert "NetworkTuning" in notes[0] and "SessionTuning" in notes[1]
