"""Collecting, training and judging from the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from autosched.cli.app import main
from autosched.measure.simulated import SimulatedRunner
from autosched.records.corpus import Corpus
from costmodel.gbdt import GradientBoostedModel


class Simulated(SimulatedRunner):
    """Stands in for this machine."""

    def __init__(self, *_: object) -> None:
        super().__init__()


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["costmodel", *map(str, words)])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_corpus_is_collected_learned_and_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("autosched.measure.runner.LocalRunner", Simulated)
    path, output, rows = tmp_path / "c.npz", tmp_path / "model.json", tmp_path / "rows.json"
    line: Sequence[object] = ("collect", path, "--hours", 1, "--network", "mlp", "--programs", 16)
    code, out, _ = run(capsys, *line)
    assert code == 0 and "48 programs, 3 tasks" in out and "programs/s" in out and "left" in out
    code, out, _ = run(capsys, *line, "--quiet")
    assert code == 0 and not out and len(Corpus.load(path)) == 48
    code, out, _ = run(capsys, "train", path, "-o", output)
    assert code == 0 and "trees from 48 programs" in out
    assert GradientBoostedModel.load(output).trees > 0
    tune = ["tune", "--workload", "GMM", "--args", "n=16,m=16,k=16", "--trials", "8", "--quiet"]
    assert main([*tune, "--cost-model", str(output), "--log", str(tmp_path / "gmm.jsonl")]) == 0
    code, out, err = run(capsys, "train", path, "-o", output, "--without", "mlp")
    assert code == 1 and "too few" in err
    code, out, err = run(capsys, "train", path, "-o", output, "--without", "mpl")
    assert code == 2 and "no program of the corpus is of 'mpl'" in err and "mlp" in err
    code, out, _ = run(capsys, "eval", path, "--cost-model", "draft", "--json", rows)
    assert code == 0 and "top-1" in out and "rank" in out
    assert [row["split"] for row in json.loads(rows.read_text())["rows"]] == ["by-task"]


def test_a_model_of_other_features_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.json"
    GradientBoostedModel().save(path)
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "features": "1-00000000"}))
    log = tmp_path / "gmm.jsonl"
    tune = ["tune", "--workload", "GMM", "--cost-model", str(path), "--log", str(log)]
    assert main(tune) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "version 1-00000000" in error and "train it again" in error
    assert not log.exists()


def test_a_model_that_is_none_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["tune", "mlp", "--cost-model", "nonsense"])
    assert stop.value.code == 2 and "FILE.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "expected", "error"),
    [
        ("collect corpus.txt --hours 1", 2, "NAME.npz"),
        ("train none.npz -o model.json", 1, "cannot be read"),
        ("eval none.npz", 1, "cannot be read"),
        (f"collect {'x' * 300}.npz --hours 1 --network mlp", 1, "File name too long"),
        ("eval mlp", 2, "no log is named"),
        ("collect c.npz --hours 1 --network nonsense", 2, "no network is called"),
    ],
)
def test_errors_are_one_line(
    line: str,
    expected: int,
    error: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("autosched.measure.runner.LocalRunner", Simulated)
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *line.split())
    assert code == expected and error in err and err.count("\n") == 1
