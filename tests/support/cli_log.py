"""A log of two tasks for tests of commands."""

from __future__ import annotations

from pathlib import Path

from autosched.measure.result import Failure, Timing
from autosched.records.log import RecordLog
from autosched.records.record import Record
from sketch.target.target import Target

TARGET = Target("cpu", "znver5", threads=2)


def make_record(task: str, seconds: float, tile: int) -> Record:
    return Record(task, TARGET, "direct", (), {"i@1": tile}, Timing((seconds,)), time=float(tile))


def make_log(path: Path) -> Path:
    """Three timings and a failure."""
    bad = Record("a" * 16, TARGET, "direct", (), {"i@1": 9}, Failure("run", "SIGSEGV", "crash"))
    RecordLog(path).append(
        [make_record("a" * 16, 2e-3, 4), make_record("a" * 16, 1e-3, 8),
         make_record("b" * 16, 5e-6, 2), bad]
    )  # fmt: skip
    return path
