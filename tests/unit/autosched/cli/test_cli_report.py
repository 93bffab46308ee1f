"""``autosched report``: one file, or one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.cli.app import main
from autosched.records.log import RecordLog
from autosched.system.errors import MissingPackageError
from tests.support.report_logs import LOG, fake_library


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_library(monkeypatch)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    RecordLog(path).append(LOG)
    return path


def test_a_report_is_one_file(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "new" / "page.html"
    assert main(["report", str(log), "-o", str(page)]) == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert capsys.readouterr().out.startswith(f"{page}: ")
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]


def test_two_logs_are_compared(log: Path, tmp_path: Path) -> None:
    other, page = tmp_path / "other.jsonl", tmp_path / "page.html"
    RecordLog(other).append(LOG[:4])
    assert main(["report", str(log), str(other), "-o", str(page), "-q"]) == 0
    text = page.read_text()
    assert "tasks that all runs have take together" in text
    assert str(tmp_path) not in text, "the page is for others, too"


def test_names_of_files_may_be_no_text(log: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd\udcff.jsonl"
    log.rename(odd)
    assert main(["report", str(odd), "-o", str(tmp_path / "page.html"), "-q"]) == 0
    assert "Tuning report: odd?.jsonl" in (tmp_path / "page.html").read_text()


def test_a_log_is_not_compared_with_itself(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(log), str(log)]) == 2
    assert "a log is named twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("missing.jsonl", "does not exist"),
        ("empty.jsonl", "the log has no record"),
        ("notes.txt", "this is no log"),
    ],
)
def test_what_cannot_be_reported_is_one_line(
    name: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "notes.txt").write_text("not a log\n")
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path / name), "-o", str(page)]) == 1
    error = capsys.readouterr().err
    assert what in error and error.count("\n") == 1
    assert not page.exists()


def test_a_log_of_another_network_is_one_line(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(log), "--model", "mlp", "-o", str(page), "-q"]) == 1
    error = capsys.readouterr().err
    assert "no record is of a task of this network" in error and error.count("\n") == 1


def test_where_it_cannot_be_written_is_said_first(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(log), "-o", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "the file cannot be written" in error and error.count("\n") == 1


def test_without_the_package_it_says_what_to_install(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(package: str, purpose: str, install: str) -> None:
        raise MissingPackageError(f"the package {package!r} is not installed", purpose, install)

    monkeypatch.setattr("autosched.page.file.require", missing)
    assert main(["report", str(log)]) == 1
    error = capsys.readouterr().err
    assert "vl_convert" in error and "autosched[report]" in error and error.count("\n") == 1
