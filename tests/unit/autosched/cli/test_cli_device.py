"""Compiled modules of a GPU on the command line: the emulated device runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.records.identity import identity, recorded
from codegen.cuda.nvrtc import missing_compiler
from codegen.gpu import emulated as emulated_device
from codegen.gpu.missing import missing_gpu

MODEL = ["--workload", "GMM", "--args", "batch=1,n=8,m=8,k=8"]
DEVICE = ["--target", "cuda:h200", "--device", "emulated"]


def test_all_that_is_done_with_a_compiled_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", *MODEL, *DEVICE, "--save", "net.asd"]) == 0
    assert main(["bench", "net.asd", "--repeats", "3", "--json", "bench.json"]) == 0
    assert main(["profile", "net.asd", "--repeats", "3", "--json", "profile.json"]) == 0
    assert main(["explain", "net.asd", "--repeats", "3"]) == 0
    assert main(["summary", "net.asd"]) == 0
    said = capsys.readouterr().out
    assert "nominal numbers of the card, not measured" in said and "1 kernel, " in said
    median = 1e3 * json.loads(Path("bench.json").read_text())["median_ms"]
    profile = json.loads(Path("profile.json").read_text())
    assert sum(row["microseconds"] for row in profile["rows"]) == pytest.approx(median, rel=0.03)
    assert main(["compile", "net.asd", "-o", "lib/net"]) == 0
    assert {path.suffix for path in Path("lib").iterdir()} == {
        ".c", ".h", ".json", ".cubin", ".constants",
    }  # fmt: skip
    assert main(["bench", "net.asd", "--pin"]) != 0
    assert "the kernels run on a GPU" in capsys.readouterr().err


def test_a_saved_module_runs_on_the_device_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    checked = []
    check = emulated_device.checked_launches
    monkeypatch.setattr(
        emulated_device, "checked_launches", lambda *words: checked.append(1) or check(*words)
    )
    assert main(["compile", *MODEL, *DEVICE, "--save", "net.asd"]) == 0
    assert main(["bench", "net.asd", "--repeats", "1", "--device", "emulated"]) == 0
    assert main(["profile", "net.asd", "--repeats", "1", "--device", "emulated"]) == 0
    assert not checked
    assert main(["bench", "net.asd", "--repeats", "1", "--device", "emulated-checked"]) == 0
    assert checked and "emulated: times are estimates" in capsys.readouterr().out
    assert main(["compile", "net.asd", "-o", "net", "--device", "emulated"]) == 2
    assert "says where a module runs" in capsys.readouterr().err


@pytest.mark.skipif(missing_gpu() is None, reason="there is a GPU")
@pytest.mark.parametrize("command", ["bench", "profile", "explain"])
def test_what_is_missing_is_said_before_anything_is_compiled(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *MODEL, "--target", "cuda:h200"]) == 1
    said = capsys.readouterr().err
    assert "cannot run kernels" in said and "compiling" not in said


@pytest.mark.skipif(missing_compiler() is not None, reason="NVRTC is not installed")
def test_a_summary_needs_no_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", *MODEL, "--target", "cuda:h200"]) == 0
    assert "1 kernel, " in capsys.readouterr().out


def test_a_module_for_a_cpu_has_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", *MODEL, "--save", "cpu.asd"]) == 0
    assert main(["bench", "cpu.asd", "--device", "emulated"]) == 1
    assert "a cpu target is not emulated" in capsys.readouterr().err


def test_checks_are_no_part_of_a_machine() -> None:
    plain = asd.Target("cuda:h200", device="emulated")
    checked = asd.Target("cuda:h200", device="emulated-checked")
    assert checked.card.checked and not plain.card.checked
    assert recorded(checked) == recorded(plain) and identity(checked) == identity(plain)
