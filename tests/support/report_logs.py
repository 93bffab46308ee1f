"""Logs with everything that a report shows, and texts that are markup unless they are escaped."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from autosched.measure.result import Failure, Timing
from autosched.records.record import Record
from autosched.records.title import Title
from sketch.target.target import Target

MARKUP = "</script><script>alert(1)</script><b>&\"'"
TARGET = Target("cpu", "generic", threads=2)


def trial(task: str, number: int, seconds: float, i: int = 1, j: int = 1) -> Record:
    """A trial of schema 5, the ``number``-th of its log."""
    timing = Timing((seconds, 1.1 * seconds, 0.9 * seconds), build_s=0.02)
    return Record(
        task, TARGET, "direct", (), {"i": i, "j": j, "k": 1}, timing,
        versions={"autosched": "0.1.0"}, time=1.7e9 + 2 * number, trial=number,
        predicted=seconds / 8, title=Title(f"conv {task[:2]} {MARKUP}", 1e6),
    )  # fmt: skip


CRASH = Failure("run", "SIGSEGV", f"crash {MARKUP}")
LOG = (
    trial("a" * 16, 1, 4e-4, 1, 1),
    replace(trial("b" * 16, 2, 1.0), result=CRASH),
    trial("b" * 16, 3, 8e-4),
    trial("a" * 16, 4, 2e-4, 2, 1),
    trial("a" * 16, 5, 3e-4, 2, 2),
    replace(trial("a" * 16, 6, 5e-4, 4, 4), variant="winograd-4", trial=6),
    replace(trial("c" * 16, 7, 1.0), result=CRASH),
)
# As older releases wrote them.
OLD = tuple(replace(r, trial=None, predicted=None, title=None, time=0.0) for r in LOG)
PRUNED = (replace(LOG[3], phase="final"),)
ELSEWHERE = tuple(replace(r, target=replace(TARGET, threads=4)) for r in LOG)


def fake_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the package that draws: finding and bundling the real one takes seconds."""
    bundle = SimpleNamespace(javascript_bundle=lambda snippet: "const vegaEmbed = null;")
    monkeypatch.setitem(sys.modules, "vl_convert", bundle)
    monkeypatch.setattr("autosched.page.file.require", lambda *_: None)
