"""Commands whose standard streams are closed or full."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from autosched.records.log import RecordLog
from tests.support.cli_log import make_log

ROOT = Path(__file__).parents[4]
COMMAND = "from autosched.cli import run_and_exit; run_and_exit()"


def test_a_full_stdout_is_one_error() -> None:
    command = [sys.executable, "-c", COMMAND, "workloads"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "autosched: cannot write to stdout: No space left on device\n"


def test_a_reader_that_goes_ends_no_tuning(tmp_path: Path) -> None:
    log, result = tmp_path / "mm.jsonl", tmp_path / "result.json"
    words = f"tune --workload GMM --args n=8,m=8,k=8 --trials 2 --log {log} --json {result}"
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", COMMAND, *words.split()]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=write)
    finally:
        os.close(write)
    assert done.returncode == 141
    assert json.loads(result.read_text())["rows"] and len(RecordLog(log).read().records) >= 2


def test_a_full_stderr_ends_no_command(tmp_path: Path) -> None:
    log = make_log(tmp_path / "log.jsonl")
    log.write_text("garbage\n" + log.read_text())  # which there is a warning about
    command = [sys.executable, "-c", COMMAND, "records", "stats", str(log)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=full, text=True)
    assert done.returncode == 0 and "SIGSEGV x1" in done.stdout


def test_a_full_stdout_ends_no_tuning(tmp_path: Path) -> None:
    log, result = tmp_path / "mm.jsonl", tmp_path / "result.json"
    words = f"tune --workload GMM --args n=8,m=8,k=8 --trials 2 --log {log} --json {result}"
    command = [sys.executable, "-c", COMMAND, *words.split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.endswith("autosched: cannot write to stdout: No space left on device\n")
    assert json.loads(result.read_text())["rows"] and len(RecordLog(log).read().records) >= 2


@pytest.mark.parametrize("closed", [pytest.param(">&-", marks=pytest.mark.slow), "<&- >&- 2>&-"])
def test_streams_may_be_closed(closed: str, tmp_path: Path) -> None:
    """Files do not get their numbers: what is printed stays out of the log."""
    log = tmp_path / "mm.jsonl"
    tune = [
        "tune",
        "--workload",
        "GMM",
        "--args",
        "n=8,m=8,k=8",
        "--trials",
        "2",
        "--log",
        str(log),
    ]
    command = shlex.join([sys.executable, "-c", COMMAND, *tune])
    assert subprocess.run(["sh", "-c", f"{command} {closed}"], cwd=ROOT).returncode == 0
    found = RecordLog(log).read()
    assert len(found.records) >= 2 and not found.warnings
