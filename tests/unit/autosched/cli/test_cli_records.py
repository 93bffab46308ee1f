"""``autosched records``: what is in logs, and logs that are cut down."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autosched.cli.app import main
from autosched.records.log import RecordLog
from tests.support.cli_log import make_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return make_log(tmp_path / "log.jsonl")


def test_stats_and_best(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["records", "stats", str(log), "--json", "-"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert first["best_s"] == 1e-3 and first["threads"] == 2 and first["arch"] == "znver5"
    assert main(["records", "stats", str(log)]) == 0
    text = capsys.readouterr().out
    assert "1000.0" in text and "run: SIGSEGV x1" in text
    assert main(["records", "best", str(log)]) == 0
    text = capsys.readouterr().out
    assert "1000.0        -      2  direct: as written" in text and " 5.00 " in text


def test_merge_and_prune(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "all.jsonl"
    assert main(["records", "merge", str(log), str(log), "-o", str(out)]) == 0
    assert len(RecordLog(out).read().records) == 4
    assert main(["records", "prune", str(out), "--keep", "1"]) == 0
    assert len(RecordLog(out).read().records) == 2
    said = capsys.readouterr().out
    assert "all.jsonl: 4 -> 2 records, " in said and f"what it was is in {out}.bak" in said
    assert len(RecordLog(f"{out}.bak").read().records) == 4


def test_a_pruned_log_is_kept(
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, other = log.read_bytes(), tmp_path / "small.jsonl"
    assert main(["records", "prune", str(log), "-o", str(other)]) == 0
    assert "small.jsonl: 4 -> 3 records, " in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "small.jsonl"]

    def link(source: str, target: Path) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)  # as on a file system without links
    assert main(["records", "prune", str(log), "-q"]) == 0
    assert Path(f"{log}.bak").read_bytes() == whole
    monkeypatch.undo()
    smaller = log.read_bytes()
    assert main(["records", "prune", str(log), "--top", "1"]) == 0
    assert Path(f"{log}.bak").read_bytes() == whole  # no backup replaces an earlier one
    assert Path(f"{log}.bak2").read_bytes() == smaller != log.read_bytes()


@pytest.mark.parametrize("action", ["stats", "best"])
def test_an_empty_log_has_no_records(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert main(["records", action, str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: no records\n"


def test_distil(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "logs"
    assert main(["records", "distill", str(log), "-o", str(out)]) == 0
    kept = RecordLog(out / log.name).read().records
    assert [(r.task[0], r.decisions["i@1"]) for r in kept] == [("a", 8), ("b", 2)]
    assert f"{out / log.name}: 2 records" in capsys.readouterr().out


def test_small_logs_go_to_a_folder(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["records", "distill", str(log), "-o", str(log)]) == 2
    assert "-o names a file, not a folder" in capsys.readouterr().err


def test_csv(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "trials.csv"
    assert main(["records", "csv", str(log), "-o", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 5
    assert main(["records", "csv", str(log)]) == 0
    assert capsys.readouterr().out == out.read_text()
    assert main(["records", "csv", str(tmp_path / "none.jsonl")]) == 1


def test_a_skipped_line_is_a_warning(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text("garbage\n" + log.read_text())
    assert main(["records", "stats", str(log)]) == 0
    assert "autosched: warning:" in capsys.readouterr().err
