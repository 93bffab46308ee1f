"""``autosched watch``: says where the page is, waits for a log, and ends in one line."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.request import urlopen

import pytest

from autosched.cli.app import main
from autosched.records.log import RecordLog
from autosched.report.page.serving import PageServer
from tests.support.report_logs import LOG, fake_library


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_library(monkeypatch)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the server would send; Ctrl-C comes at once."""
    found: list[str] = []

    def serve(server: PageServer) -> None:
        found.append(server.page.current().text)
        raise KeyboardInterrupt

    monkeypatch.setattr(PageServer, "serve_forever", serve)
    return found


def test_it_prints_the_url_and_ends_in_one_line(
    tmp_path: Path, pages: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    RecordLog(log).append(LOG)
    assert main(["watch", str(log), "--port", "0"]) == 130
    out, err = capsys.readouterr()
    assert out.startswith("http://127.0.0.1:") and out.count("\n") == 1 and str(log) in out
    assert err == "autosched: interrupted\n"
    assert '<h2 id="overview">' in pages[0]


def test_a_missing_log_is_waited_for(
    tmp_path: Path, pages: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(tmp_path / "later.jsonl"), "--port", "0"]) == 130
    assert capsys.readouterr().out.endswith("\nwaiting for the first record\n")
    assert "has no record yet" in pages[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["notes.txt"], 1, "this is no log"),
        (["."], 1, "the log is a directory"),
        (["log.jsonl", "--model", "mlp"], 1, "no record is of a task of this network"),
        (["log.jsonl", "--shape", "x=1,2"], 2, "--shape is for --model"),
        (["log.jsonl", "--value", "x=1"], 2, "--value is for --model"),
        (["log.jsonl", "--port", "99999"], 2, "'99999' is not a port"),
        (["log.jsonl", "--port", "http"], 2, "'http' is not a port"),
    ],
)
def test_what_cannot_be_watched_is_one_line(
    arguments: list[str],
    code: int,
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("not a log\n")
    RecordLog("log.jsonl").append(LOG)
    try:
        found = main(["watch", *arguments])
    except SystemExit as stop:  # what does not parse
        found = int(stop.code or 0)
    assert found == code
    error = capsys.readouterr().err
    assert what in error and error.count("\n") == 1


def test_a_busy_port_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["watch", str(tmp_path / "log.jsonl"), "--port", str(port)]) == 1
    error = capsys.readouterr().err
    assert "the port cannot be used" in error and str(port) in error and error.count("\n") == 1


def test_a_request_is_answered_while_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One request in the thread of the test, and then Ctrl-C."""
    import threading

    log = tmp_path / "log.jsonl"
    RecordLog(log).append(LOG)
    sent: list[bytes] = []

    def serve(server: PageServer) -> None:
        reader = threading.Thread(target=lambda: sent.append(urlopen(server.url).read()))
        reader.start()
        server.handle_request()
        reader.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(PageServer, "serve_forever", serve)
    assert main(["watch", str(log), "--port", "0", "-q"]) == 130
    assert b'<h2 id="overview">' in sent[0]
    assert capsys.readouterr().out == ""
