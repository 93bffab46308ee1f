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
from autosched.workloads.matrix import gmm
from sketch.lang.tensor import Tensor

@asd.workload
def plain(n: int) -> Tensor:
    return asd.placeholder((n,), name="a")

net = asd.zoo.build("mlp")
reveal_type(asd.tune(net, trials=3))
reveal_type(asd.tune([net], trials=3))
asd.tune(net, trails=3)  # wrong
asd.tune([net], trails=3)  # wrong
asd.tune(net, trials="3")  # wrong
asd.tune(net, "cpu", "10m", extra_features=[asd.ExtraFeature("depth", lambda statement: 1.0)])
asd.tune(net, "cpu", "10m", extra_features=[len])  # wrong
asd.compile(net, quik=True)  # wrong
gmm.dag(1, 2, 3, k=4)
gmm.dag(1, 2, 3, "k")  # wrong
gmm.key(1, 2, 3, 4, depth=3)  # wrong
gmm.task(1, 2, 3, k=4, target="cpu", threads=1)
gmm.task(1, 2, 3, [4])  # wrong
plain.dag(3)
plain.dag("3")  # wrong
"""


@pytest.mark.parametrize(
    "function",
    [asd.tune, asd.compile, asd.load, asd.from_onnx, asd.from_torch, asd.Task, asd.Task.tune,
     asd.Task.module, study.replay_study, study.evaluate_model, SearchOptions],
)  # fmt: skip
def test_no_parameter_takes_whatever_it_is_given(function: object) -> None:
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}  # type: ignore[arg-type]
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}


@pytest.mark.slow
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
    found = {int(line.partition(":")[0]) for line in errors}
    wrong = {n for n, line in enumerate(CALLS.splitlines(), 1) if line.endswith("# wrong")}
    assert status == 1 and found == wrong, text
    notes = [line for line in lines if "Revealed type" in line]
    assert "NetworkTuning" in notes[0] and "SessionTuning" in notes[1]
