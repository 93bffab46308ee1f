"""Compiled modules of a GPU on the command line: the emulated device runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosched.cli import main

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
    assert "nominal numbers of the card, not measured" in said and "1 kernels" in said
    median = 1e3 * json.loads(Path("bench.json").read_text())["median_ms"]
    profile = json.loads(Path("profile.json").read_text())
    assert sum(row["microseconds"] for row in profile["rows"]) == pytest.approx(median, rel=0.03)
    assert main(["compile", "net.asd", "-o", "lib/net"]) == 0
    assert {path.suffix for path in Path("lib").iterdir()} == {
        ".c", ".h", ".json", ".cubin", ".constants",
    }  # fmt: skip
    assert main(["bench", "net.asd", "--pin"]) != 0
    assert "the kernels run on a GPU" in capsys.readouterr().err
