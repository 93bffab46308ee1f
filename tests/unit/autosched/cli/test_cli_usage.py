"""Wrong usage: one line on stderr that says what is meant, and 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.cli.app import main
from tests.support.cli_log import make_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return make_log(tmp_path / "log.jsonl")


@pytest.mark.parametrize(
    "line",
    ["", "nonsense", "bench", "bench resnet-18 --repeats 0", "bench m --threads x", "records"],
)
def test_wrong_usage_exits_with_2(line: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    assert stop.value.code == 2


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--budget abc", "'abc' is not a positive time"),
        ("--budget -1s", "budget '-1s' is not a positive time"),
        ("--budget -.5", "is not a positive time"),
        ("--budget 0", "'0' is not a positive time"),
        ("--trials -1", "-1 is not at least 1"),
        ("--trials abc", "'abc' is not a whole number"),
        ("--policy foo", "'foo' is none of evolutionary, genetic, random, grid, nor FILE.py:NAME"),
    ],
)
def test_wrong_values_are_one_line_and_2(
    option: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["tune", "mlp", *option.split()])
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert error.startswith(f"autosched tune: argument {option.split()[0]}: ") and said in error
    assert error.endswith("| see `autosched tune --help`\n") and error.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bench resnet-81", "did you mean resnet-18?"),
        ("bench mlp --target cpu-avx3", "did you mean cpu-avx2?"),
        ("bench mlp --target cuda:h2000 --device emulated", "did you mean h200?"),
        ("tune --workload CONV2D", "did you mean C2D?"),
        ("workloads CONV2D", "did you mean C2D?"),
        ("tune mlp --set leeders=2", "did you mean leaders?"),
        ("tune mlp --policy nowhere.py:mine", "there is no such file"),
        ("costmodel collect c.npz --hours 1 --target cpu-avx3", "did you mean cpu-avx2?"),
    ],
)
def test_names_that_are_not_known_are_wrong_usage(
    line: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("autosched: ") and error.count("\n") == 1 and said in error


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tunee mlp", "autosched: argument COMMAND: 'tunee' is none of tune, "),
        ("tunee mlp", "| did you mean tune? | see `autosched --help`"),
        ("records staats x", "| did you mean stats? | see `autosched records --help`"),
        ("tune mlp --buget 3s", "autosched tune: unrecognized arguments: --buget 3s | did you "),
        ("tune mlp --buget=3s", "mean --budget? | see `autosched tune --help`"),
        ("records stats x --jsn -", "autosched records stats: unrecognized arguments: --jsn - |"),
        ("bench mlp resnet-18", "unrecognized arguments: resnet-18 | see"),
        ("tune mlp --accuracy fst", "'fst' is none of "),
    ],
)
def test_misspelt_options_and_commands_get_a_suggestion(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    error = capsys.readouterr().err
    assert stop.value.code == 2 and said in error and error.count("\n") == 1


def test_what_is_no_model_is_said(
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for line, said in (
        ("tune .", "a folder is no model | . | give an .onnx file or a network's name"),
        (
            "tune my.asd",
            "a compiled module has no tasks: its schedules are fixed | my.asd | give what it was",
        ),
        ("report log.jsonl --model my.asd", "a compiled module has no tasks"),
        ("records prune log.jsonl --model my.asd", "a compiled module has no tasks"),
        ("costmodel eval my.asd --log log.jsonl", "a compiled module has no tasks"),
        ("tune log.jsonl", "a log is no model"),
        ("costmodel eval log.jsonl", "give the model that it is of, and --log log.jsonl"),
        ("costmodel eval mlp", "no log is named | mlp | give --log FILE"),
        ("records prune log.jsonl --model .", "a folder is no model"),
    ):
        assert main(line.split()) == 2
        assert said in capsys.readouterr().err


def test_a_model_that_cannot_be_read_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A file whose reading fails for root as well: nothing is at its first address."""
    file = "/proc/self/mem"
    for command in ("summary", "tune", "bench"):
        assert main([command, file]) == 1
        error = capsys.readouterr().err
        assert f"the file cannot be read: Input/output error | {file}" in error
