"""What commands write: never over what they read, whole, and valid."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autosched.cli.app import main
from autosched.cli.command import check_output, say, write_json
from autosched.records.log import RecordLog
from autosched.runtime.profiler import Profile, ProfileRow
from tests.support.report_logs import LOG, fake_library


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    fake_library(monkeypatch)
    RecordLog("a.jsonl").append(LOG)
    os.link("a.jsonl", "b.jsonl")
    Path("c.npz").write_bytes(b"corpus")
    Path("d.npz").write_bytes(b"corpus")
    Path("team.db").write_bytes(b"database")
    Path("mine.py").write_text("")
    return tmp_path / "a.jsonl"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("report a.jsonl -o a.jsonl", "another argument names"),
        ("report a.jsonl -o b.jsonl", "another argument names"),
        ("report c.jsonl -o a.jsonl", "the file is a log"),
        ("report a.jsonl -o -", "not stdout"),
        ("records csv a.jsonl -o ./a.jsonl", "another argument names"),
        ("records csv c.jsonl -o a.jsonl", "the file is a log"),
        ("records stats a.jsonl --json a.jsonl", "another argument names"),
        ("records stats sqlite:///team.db --json team.db", "another argument names"),
        ("records distill a.jsonl -o .", "another argument names"),
        ("tune mlp --log new.jsonl --json new.jsonl", "another argument names"),
        ("tune mlp --trials 1 --json mlp.jsonl", "another argument names"),
        ("tune mlp --policy mine.py:P --json mine.py", "another argument names"),
        ("profile mlp --csv t.csv --json t.csv", "another argument names"),
        ("profile mlp --csv - --json -", "another argument names"),
        ("compile mlp --log a.jsonl --save a.jsonl", "another argument names"),
        ("costmodel train c.npz -o c.npz", "another argument names"),
        ("costmodel train c.npz -o d.npz", "a model is no corpus"),
    ],
)
def test_nothing_is_written_over_what_is_read(
    line: str, what: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in log.parent.iterdir()}
    assert main(line.split()) == 2
    error = capsys.readouterr().err
    assert what in error and error.count("\n") == 1
    assert {path.name: path.read_bytes() for path in log.parent.iterdir()} == before


def test_logs_may_be_merged_and_pruned_in_place(log: Path) -> None:
    assert main(["records", "merge", str(log), str(log), "-o", str(log), "-q"]) == 0
    assert main(["records", "prune", str(log), "-o", str(log), "-q"]) == 0
    assert RecordLog(log).read().records


def test_a_checked_link_stays(tmp_path: Path) -> None:
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(file)
    check_output(link)
    assert link.is_symlink() and not file.exists()


def test_numbers_that_json_lacks_are_null(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(str(path), {"a": [math.nan, math.inf, 1.0]})
    text = path.read_text()
    assert "NaN" not in text and json.loads(text) == {"a": [None, None, 1.0]}


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_full_disk_leaves_the_old_file(
    kind: str, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log.with_name("old")
    path.write_text("old")
    full = OSError(28, "No space left on device")

    def fail(*_: Any, **__: Any) -> None:
        raise full

    monkeypatch.setattr(Path, "write_text", fail)
    monkeypatch.setattr("autosched.records.rows.print_csv", fail)
    line = {"json": "stats a.jsonl --json old", "csv": "csv a.jsonl -o old"}[kind]
    assert main(["records", *line.split()]) == 1
    assert path.read_text() == "old"


ROW = ProfileRow("a", "dense", "4x4", 1.0, 100.0, 1.0, 1.0, "key", "model")


def test_a_table_goes_to_stdout(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = Profile("m", (ROW,), ROW, ROW, 1, 1, 1.0)
    module = SimpleNamespace(name="m", profile=lambda **_: profile)
    monkeypatch.setattr("autosched.cli.profile.open_module", lambda args: module)
    assert main(["profile", "mlp", "--csv", "-"]) == 0
    found = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert len(found) == 4 and found[0][0] == "layers"
    assert not log.with_name("-").exists()
    assert main(["records", "csv", str(log), "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("task,")


class Cut(io.StringIO):
    """A pipe that nobody reads."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_what_nobody_reads_ends_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    args = argparse.Namespace(quiet=False)
    monkeypatch.setattr("sys.stdout", Cut())
    say(args, "text")
    assert args.cut
    monkeypatch.setattr("sys.stderr", Cut())
    assert main(["workloads"]) == 141
