"""How commands behave: outputs are checked first, waits are announced, signals leave a good log."""

from __future__ import annotations

import argparse
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

from autosched.cli.app import main, make_parser
from autosched.cli.command import check_output
from autosched.cli.ending import ending_on_signals
from autosched.cli.waiting import ProgressAfter, Waiting
from autosched.records.log import RecordLog
from autosched.report.events import ProgressSnapshot, Quiet
from sketch.target.target import MOST_THREADS

ROOT = Path(__file__).parents[4]


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


def test_the_steps_of_a_wait_are_told() -> None:
    piped, quiet, terminal = Stream(False), Stream(False), Stream(True)
    with Waiting("comparing", stream=piped, patience_s=1000.0) as wait:
        wait.tell("timing what is tuned")
    assert piped.getvalue() == "comparing, timing what is tuned\n"
    with Waiting("comparing", quiet=True, stream=quiet) as wait:
        wait.tell("timing")
    assert quiet.getvalue() == ""
    with Waiting("comparing", stream=terminal, patience_s=0.0) as wait:
        assert terminal.told.wait(20)
        terminal.told.clear()
        wait.tell("timing")
        assert terminal.told.wait(20)
    assert terminal.getvalue().startswith("\rcomparing: 0 s\rcomparing, timing: 1 s\r")


def test_a_stream_that_takes_nothing_ends_no_wait() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    closed = io.StringIO()
    closed.close()
    for stream in (Full(), closed):
        with Waiting("comparing", stream=stream, patience_s=1000.0) as wait:
            wait.tell("timing what is tuned")


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
        def start(self, view: ProgressSnapshot) -> None:
            seen.append("start" if wait._ended.is_set() else "too early")

        def update(self, view: ProgressSnapshot) -> None:
            seen.append("update")

        def message(self, text: str) -> None:
            seen.append(text)

        def finish(self, view: ProgressSnapshot) -> None:
            seen.append("finish")

    view = ProgressSnapshot((), None, 0, None, 0.0, None, math.inf)
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
    for path in (closed, closed.with_name("x" * 300)):
        assert main(line.format(path).split()) == 1
        error = capsys.readouterr().err
        assert error.startswith("autosched: the file cannot be written: ")
        assert error.count("\n") == 1


def test_a_checked_output_leaves_no_trace(tmp_path: Path) -> None:
    check_output(tmp_path / "new" / "a.json")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "old.json").write_text("kept")
    check_output(str(tmp_path / "old.json"))
    assert (tmp_path / "old.json").read_text() == "kept"
    check_output(None)


@pytest.mark.parametrize(
    "action", ["stats", "best", "prune", "merge -o {0}", "distill -o {1}/small"]
)
def test_a_file_that_is_no_log_is_left_alone(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a log\n")
    line = f"records {action.format(path, tmp_path)} {path}"
    assert main(line.split()) == 1
    assert "none of its lines is a record" in capsys.readouterr().err
    assert path.read_text() == "not a log\n"


READERS = ("tune", "bench", "explain", "profile", "summary", "compile", "costmodel eval")


@pytest.mark.parametrize("command", READERS)
def test_what_is_no_log_is_told_before_the_work(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def too_late(*_: Any) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("autosched.cli.model.open_network", too_late)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "model.onnx").write_bytes(b"\x08\x07\x12\x04test\x00\xff")
    os.mkfifo(tmp_path / "pipe")
    more = ["--save", str(tmp_path / "mlp.asd")] if command == "compile" else []
    for name, what in (
        ("table.csv", "this is no log"),
        ("model.onnx", "this is no log"),
        ("pipe", "the log is a pipe"),
        (".", "the log is a directory"),
    ):
        assert main([*command.split(), "mlp", "--log", str(tmp_path / name), *more]) == 1
        error = capsys.readouterr().err
        assert what in error and error.count("\n") == 1
    assert (tmp_path / "table.csv").read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize(
    ("model", "code", "said"),
    [
        ("models/", 1, "there is no such file"),
        ("models/a.pb", 1, "there is no such file"),
        (".", 2, "a folder is no model"),
    ],
)
def test_a_path_is_no_name_of_a_network(
    model: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", model]) == code
    assert said in capsys.readouterr().err


def test_threads_that_share_cpus_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("autosched.runtime.cores.available_cores", lambda: {0})
    assert main(["bench", "mlp", "--threads", "2", "--repeats", "1"]) == 0
    assert "2 threads share 1 CPU: " in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["bench", "mlp", "--threads", str(MOST_THREADS + 1)])
    assert stop.value.code == 2
    assert f"is more than {MOST_THREADS}" in capsys.readouterr().err


INTERRUPTED_AT_ONCE = """
import signal, sys

class Interrupts:
    def find_spec(self, name, *others):
        if name == sys.argv[1]:
            try:
                signal.raise_signal(signal.SIGINT)
            except BaseException:
                pass

sys.meta_path.insert(0, Interrupts())
from autosched.cli import run_and_exit
run_and_exit()
"""


@pytest.mark.parametrize("module", ["autosched.cli.app", "numpy"])
def test_an_interrupt_while_the_commands_are_loaded(module: str) -> None:
    """Also where the module that is imported at that moment drops exceptions."""
    command = [sys.executable, "-c", INTERRUPTED_AT_ONCE, module]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "autosched: interrupted\n")


def test_an_interrupt_while_arguments_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autosched.cli.app.make_parser", interrupt)
    assert main(["tune", "mlp"]) == 130
    assert capsys.readouterr().err == "autosched: interrupted\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_that_ask_for_the_end(
    number: signal.Signals,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("autosched.cli.app.make_parser", lambda: signal.raise_signal(number))
    assert main(["tune", "mlp"]) == code
    assert capsys.readouterr().err == f"autosched: ended by {number.name}\n"
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_that_python_drops_count(
    number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SendsSignal:
        def __del__(self) -> None:
            signal.raise_signal(number)

    def parser() -> argparse.ArgumentParser:
        SendsSignal()
        return make_parser()

    monkeypatch.setattr("autosched.cli.app.make_parser", parser)
    assert main(["workloads", "-q"]) == code
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_closed_terminal_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang_up() -> None:
        try:
            signal.raise_signal(signal.SIGHUP)
        finally:
            raise OSError(5, "Input/output error")  # what a summary on it gives

    dropped: list[bool] = []
    monkeypatch.setattr("autosched.cli.app.make_parser", hang_up)
    monkeypatch.setattr("autosched.cli.app.drop_output", lambda: dropped.append(True))
    assert main(["tune", "mlp"]) == 129
    assert dropped


def test_signals_are_left_to_who_handles_them(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = (signal.SIGTERM, signal.SIGHUP)
    found = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        with ending_on_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not found[0]
    finally:
        signal.signal(signal.SIGHUP, found[1])
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["workloads", "-q"])))
    thread.start()
    thread.join()
    assert codes == [0]
    assert [signal.getsignal(number) for number in numbers] == found


def descendants(pid: int) -> set[int]:
    """The children of a process, and theirs."""
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            child = int(path.parent.name)
            found |= {child} | descendants(child)
    return found


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "interrupted"),
        pytest.param(signal.SIGTERM, 143, "ended by SIGTERM", marks=pytest.mark.slow),
    ],
)
def test_a_signal_in_the_middle_of_tuning_leaves_a_good_log(
    number: signal.Signals, code: int, said: str, tmp_path: Path
) -> None:
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
        children = descendants(process.pid)
        if number is signal.SIGINT:
            os.killpg(process.pid, number)  # what a terminal does: to the children, too
        else:
            process.send_signal(number)  # what a batch system does
        out, err = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == code, err
    assert children
    deadline = time.monotonic() + 60
    while any(map(exists, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(exists, children))
    assert "(interrupted)" in out and "Traceback" not in err
    assert err.splitlines()[-2:] == [
        f"everything measured is in {log}; the same command goes on",
        f"autosched: {said}",
    ]
    found = RecordLog(log).read()
    assert found.records and found.warnings == ()
