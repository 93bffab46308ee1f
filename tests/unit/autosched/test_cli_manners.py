"""How commands behave: outputs are checked first, waits are announced, Ctrl-C leaves a good log."""

from __future__ import annotations

import io
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from autosched.cli import main
from autosched.cli.command import check_output
from autosched.cli.waiting import ProgressAfter, Waiting
from autosched.records.log import RecordLog
from autosched.report.events import Quiet, View

ROOT = Path(__file__).parents[3]


class Stream(io.StringIO):
    """Text that can be waited for."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal, self.told = terminal, threading.Event()

    def isatty(self) -> bool:
        return self.terminal

    def flush(self) -> None:
        self.told.set()


@pytest.mark.parametrize(
    ("terminal", "text"),
    [(False, "compiling: 0 s\n"), (True, "\rcompiling: 0 s\r              \r")],
)
def test_what_takes_long_is_said(terminal: bool, text: str) -> None:
    stream = Stream(terminal)
    with Waiting("compiling", stream=stream, patience_s=0.0):
        assert stream.told.wait(20)
    assert stream.getvalue() == text


def test_what_is_quick_or_quiet_says_nothing() -> None:
    stream = Stream(True)
    with Waiting("compiling", stream=stream, patience_s=1000.0) as wait:
        wait.close()
        wait.close()
    with Waiting("compiling", quiet=True, stream=stream, patience_s=0.0):
        pass
    assert stream.getvalue() == ""


def test_a_wait_ends_where_progress_starts() -> None:
    seen: list[str] = []

    class Shown(Quiet):
        def start(self, view: View) -> None:
            seen.append("start" if wait._ended.is_set() else "too early")

        def update(self, view: View) -> None:
            seen.append("update")

        def message(self, text: str) -> None:
            seen.append(text)

        def finish(self, view: View) -> None:
            seen.append("finish")

    view = View((), None, 0, None, 0.0, None, math.inf)
    with Waiting("preparing", stream=Stream(False)) as wait:
        progress = ProgressAfter(wait, Shown())
        progress.start(view)
        progress.update(view)
        progress.message("a warning")
        progress.finish(view)
    assert seen == ["start", "update", "a warning", "finish"]


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A path on which no file can be made, not even by root."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "below.json"


@pytest.mark.parametrize(
    "line",
    [
        "tune mlp --budget 1h --json {}",
        "bench mlp --json {}",
        "profile mlp --csv {}",
        "explain mlp --json {}",
        "workloads --json {}",
        "compile mlp --save {}",
        "compile mlp -o {}",
    ],
)
def test_outputs_are_checked_before_the_work(
    line: str,
    closed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def too_late(*_: Any) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("autosched.cli.model.open_network", too_late)
    assert main(line.format(closed).split()) == 1
    error = capsys.readouterr().err
    assert error.startswith("autosched: the file cannot be written: ") and error.count("\n") == 1


def test_a_checked_output_leaves_no_trace(tmp_path: Path) -> None:
    check_output(tmp_path / "new" / "a.json")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "old.json").write_text("kept")
    check_output(str(tmp_path / "old.json"))
    assert (tmp_path / "old.json").read_text() == "kept"
    check_output("-")
    check_output(None)


@pytest.mark.parametrize("action", ["stats", "best", "prune", "merge -o {0}", "distill -o {1}"])
def test_a_file_that_is_no_log_is_left_alone(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a log\n")
    line = f"records {action.format(path, tmp_path)} {path}"
    assert main(line.split()) == 1
    assert "none of its lines is a record" in capsys.readouterr().err
    assert path.read_text() == "not a log\n"


@pytest.mark.parametrize("model", ["models/", "models/a.pb", "."])
def test_a_path_is_no_name_of_a_network(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", model]) == 1
    error = capsys.readouterr().err
    assert "there is no such file" in error or "no network is called" in error


def test_threads_that_share_cpus_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("autosched.runtime.cores.available_cores", lambda: {0})
    assert main(["bench", "mlp", "--threads", "2", "--repeats", "1"]) == 0
    assert "2 threads share 1 CPUs" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["bench", "mlp", "--threads", "1025"])
    assert stop.value.code == 2
    assert "1025 is more than 1024" in capsys.readouterr().err


def test_an_interrupt_while_arguments_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autosched.cli.app.make_parser", interrupt)
    assert main(["tune", "mlp"]) == 130
    assert capsys.readouterr().err == "autosched: interrupted\n"


def test_ctrl_c_in_the_middle_of_tuning_leaves_a_good_log(tmp_path: Path) -> None:
    log = tmp_path / "gmm.jsonl"
    words = f"tune --workload GMM --args n=32,m=32,k=32 --threads 1 --preset quick --log {log}"
    command = [sys.executable, "-m", "autosched", *words.split(), "--budget", "5m"]
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        start_new_session=True,
    )  # fmt: skip
    try:
        while process.poll() is None and not (log.exists() and log.stat().st_size):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does: to the children, too
        out, err = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, err
    assert "(interrupted)" in out and "Traceback" not in err
    assert err.splitlines()[-2:] == [
        f"everything measured is in {log}; the same command goes on",
        "autosched: interrupted",
    ]
    found = RecordLog(log).read()
    assert found.records and found.warnings == ()
