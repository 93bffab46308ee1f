"""Workloads on the command line: their names, their arguments, and every command that takes one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.records.log import RecordLog
from autosched.system.errors import WorkloadError
from autosched.workloads import WORKLOADS, Workload, find, get
from autosched.workloads.arguments import bind_text, text_of

SOURCE = '''
import autosched as asd
from beside import FACTOR

@asd.workload(shapes=[(64, 2), (128, 3)])
def scaled(n, factor=FACTOR):
    """A vector times a number."""
    x = asd.placeholder(n, name="x")
    return asd.compute(n, lambda i: x[i] * factor, name="scaled")

def plain(n: int, dtype="float32", broken: bool = False):
    """A function, not decorated."""
    w = asd.placeholder(n, dtype, name="w", constant=True)
    return asd.compute(n, lambda i: w[i] + 1 / (not broken), name="plain")
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    for name in ("mine", "beside"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "mine.py").write_text(SOURCE)
    (tmp_path / "beside.py").write_text("FACTOR = 2\n")
    return tmp_path


def test_a_configuration_gives_what_the_text_leaves_out() -> None:
    conv = get("C2D")
    assert bind_text(conv).args == conv.shapes[0]
    assert bind_text(conv, "", 3).args == conv.shapes[2]
    bound = bind_text(conv, "h=28, w=28,dilation=2", 2)
    assert bound.args == (1, 28, 28, 64, 64, 1, 1, 0, 2)
    for workload in WORKLOADS:
        for shape in workload.shapes:
            assert bind_text(workload, text_of(workload, shape)).args == shape


def test_values_are_of_the_type_of_what_they_replace() -> None:
    def define(n: int, scale: float = 1.0, flag: bool = False, name: str = "a", pads=None): ...  # type: ignore[no-untyped-def]

    workload = Workload("w", define)
    bound = bind_text(workload, "n=2,scale=3,flag=true,name=b,pads=(1, 2)")
    assert bound.args == (2, 3.0, True, "b", (1, 2)) and type(bound.args[1]) is float
    for text in ("n=x", "n=1.5", "n=true", "n=1,flag=1", "n=1,name=2"):
        with pytest.raises(WorkloadError, match="is of type"):
            bind_text(workload, text)


@pytest.mark.parametrize(
    ("name", "text", "configuration", "message"),
    [
        ("C2D", "hh=3", None, "no argument 'hh' .* did you mean h"),
        ("C2D", "3", None, "'3' is not of the form NAME=VALUE .* like n=1,h=224"),
        ("C2D", "h=,w=1", None, "not of the form"),
        ("C2D", "h=1,h=2", None, "'h=2' is there twice"),
        ("C2D", "h=x", None, "'x' is of type str .* argument h .* type int"),
        ("C2D", "", 5, "no configuration 5 .* it has 4: 1 to 4"),
        ("mine.py:plain", "", None, "no value for n .* give n=..."),
        ("mine.py:plain", "n=1", 1, "no configuration 1 .* it has 0, give all arguments"),
    ],
)
def test_wrong_arguments(
    folder: Path, name: str, text: str, configuration: int | None, message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        bind_text(find(name), text, configuration)


def test_workloads_are_found_in_files_and_modules(folder: Path) -> None:
    assert find("c2d") is get("C2D")
    assert find("mine.py").name == find("mine.py:SCALED").name == "scaled"
    assert find("mine.py:plain").dag(4).inputs[0].name == "w"
    assert find("mine:scaled").shapes == ((64, 2), (128, 3))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("C2", "no workload 'C2' .* did you mean C2D. known: C1D"),
        ("zzzz", "no workload 'zzzz' .* known: C1D"),
        ("mine.py:scald", "no workload 'scald' | mine.py | did you mean scaled"),
        ("beside.py:x", "there are none"),
        ("none.py:x", "no such file"),
        ("nowhere.at.all:x", "cannot be imported: ModuleNotFoundError"),
        ("broken.py:x", "cannot be imported: NameError: .* broken.py:2"),
    ],
)
def test_wrong_names(folder: Path, reference: str, message: str) -> None:
    (folder / "broken.py").write_text("a = 1\nb = c\n")
    with pytest.raises(WorkloadError, match=message):
        find(reference)


def test_workloads_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workloads"]) == 0
    text = capsys.readouterr().out
    assert text.count("\n") == len(WORKLOADS) + 1 and "C2D(n, h, w, ci, co, kernel" in text
    assert main(["workloads", "C2D"]) == 0
    text = capsys.readouterr().out
    assert text.count("\n") == 5 and "  3  n=1,h=14,w=14,ci=256" in text
    assert main(["workloads", "mine.py", "--json", "-"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["name"] == "scaled" and row["configurations"][1] == {"n": 128, "factor": 3}
    assert main(["workloads", "gmm"]) == 0
    assert capsys.readouterr().out.startswith("GMM(batch, n, m, k, constant=False)")


def test_a_workload_is_tuned_and_looked_into(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = ["--workload", "mine.py:scaled", "--args", "n=256", "--threads", "1"]
    assert main(["tune", *workload, "--trials", "16", "--preset", "quick", "--json", "t.json"]) == 0
    out = capsys.readouterr().out
    assert "tuning 1 task, at most 16 trials" in out and "untuned" in out
    assert f"next: autosched explain {' '.join(workload)} --log scaled.jsonl" in out
    found = json.loads(Path("t.json").read_text())
    assert found["workload"] == "scaled(256, 2)" and found["trials"] == 16
    assert [row["name"] for row in found["rows"]] == ["untuned", "tuned"]
    keys = {record.task for record in RecordLog("scaled.jsonl").read().records}
    assert keys == {find("mine.py").key(256, 2)}

    log = ["--log", "scaled.jsonl"]
    assert main(["tune", *workload, "--skip-tuned", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["stopped"] == "every task has a record"
    assert main(["explain", *workload, *log, "--repeats", "2"]) == 0
    out = capsys.readouterr().out
    assert "tuned" in out and "def scaled(x: float32[256] input" in out
    assert main(["profile", *workload, *log, "--repeats", "2", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["layers"] == "scaled(256, 2)"
    assert main(["costmodel", "eval", *workload, *log, "--cost-model", "draft"]) == 0
    assert "within-task" in capsys.readouterr().out


def test_a_log_without_a_record_of_the_workload_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.jsonl").write_text("")
    line = "summary --workload mine.py --threads 1 --log empty.jsonl"
    assert main(line.split()) == 0
    captured = capsys.readouterr()
    assert "1 of 1 task has no record" in captured.err and "model only" in captured.out


def test_a_workload_is_compiled_with_its_constants(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["compile", "--workload", "mine.py:plain", "--args", "n=8", "--threads", "1"]
    assert main(line) == 2
    assert "constants are not known: w: float32[8]" in capsys.readouterr().err
    np.savez("w.npz", w=np.arange(8, dtype=np.float32))
    assert main([*line, "--constants", "w.npz"]) == 0
    result = asd.load("plain.asd").run({})["plain"]
    np.testing.assert_allclose(result, np.arange(8) + 1)
    Path("no.npz").write_text("nothing")
    for constants in ("no.npz", "none.npz"):
        assert main([*line, "--constants", constants]) == 1
        assert "numpy.savez" in capsys.readouterr().err
    assert main(["compile", "mlp", "--constants", "w.npz"]) == 2
    assert main(["compile", "--workload", "mine.py:scaled", "--threads", "1"]) == 0
    assert asd.load("scaled.asd").inputs[0].shape == (64,)


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("tune --workload C3", 2, "did you mean C3D?"),
        ("tune --workload C2D --args h=x", 2, "give a value of type int"),
        ("tune --workload C2D --args h=1,padding=0", 1, "window"),
        ("bench --workload mine.py:plain --args n=1,broken=true", 1, "ZeroDivisionError"),
        ("tune mlp --args n=1", 2, "are for --workload"),
        ("tune --workload C2D --shape data=1,2", 2, "use --args"),
        ("tune --workload C2D --value h=1", 2, "use --args"),
        ("bench mlp.asd --args n=1", 2, ": --args: fixed in a compiled module"),
        ("bench mlp.asd --effort quick", 2, ": --effort: fixed in a compiled module"),
        ("bench mlp.asd --target cpu-avx2", 2, ": --target: fixed in a compiled module"),
        (
            "bench mlp.asd --log a.jsonl --threads 1",
            2,
            ": --log and --threads: fixed in a compiled module | mlp.asd | leave them out",
        ),
        ("costmodel eval --workload GMM --log none.jsonl", 1, "log does not exist"),
    ],
)
def test_errors_are_one_line(
    folder: Path, line: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == code
    told = capsys.readouterr().err.splitlines()
    (error,) = [line for line in told if not line.startswith("preparing ")]  # on a busy machine
    assert error.startswith("autosched: ") and message in error


@pytest.mark.parametrize("line", ["tune", "tune mlp --workload C2D", "bench --workload"])
def test_either_a_model_or_a_workload(line: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    assert stop.value.code == 2


def test_a_network_without_a_task_has_a_next_command_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = pytest.importorskip("onnx.helper")
    monkeypatch.chdir(tmp_path)
    ends = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", ends[:1], ends[1:])
    opset = [helper.make_opsetid("", 17)]
    Path("same.onnx").write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    )
    assert main(["tune", "same.onnx", "--trials", "2", "--log", "new.jsonl"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "next: autosched bench same.onnx"
    assert "timed alone" not in out and not Path("new.jsonl").exists()
