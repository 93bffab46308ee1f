"""What is said while a graph of torch.compile is tuned."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

import autosched as asd
from autosched import api
from autosched.report.events import ProgressSnapshot, TaskRow
from autosched.torch_frontend.graph_progress import GraphProgress
from autosched.torch_frontend.network_module import network_module
from autosched.torch_frontend.options import BackendOptions
from autosched.torch_frontend.tuning_child import tune_and_save

ROW = TaskRow("conv2d", "1x8x8x8", 1.0, 1e6, 1e-3, 1e-3, 4, 0, "")
VIEW = ProgressSnapshot((ROW, ROW), 0, 8, None, 12.0, 120.0, 100.0)


def test_lines_come_at_once_and_every_ten_seconds() -> None:
    out, now = io.StringIO(), iter([0.0, 5.0, 11.0, 11.0, 12.0])
    progress = GraphProgress("graph 0/0", "m.jsonl", out, lambda: next(now))
    progress.start(VIEW)
    for _ in range(3):
        progress.update(VIEW)
    progress.finish(VIEW)
    assert out.getvalue().splitlines() == [
        "tuning graph 0/0: 2 tasks, at most 2:00, 8 trials in the log, log m.jsonl",
        "tuning graph 0/0: 8 trials, estimated total 2 ms, 0:12 elapsed, 1:40 left; conv2d: 1 ms",
        "tuned graph 0/0: estimated total 2 ms after 8 trials, 0:12",
    ]


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), OSError(28, "No space")])
def test_a_stream_that_takes_nothing_ends_no_tuning(error: OSError) -> None:
    class Cut(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    GraphProgress("graph", None, Cut()).message("unread")


def test_no_stderr_ends_no_tuning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        progress = GraphProgress("graph", None)
        progress.start(VIEW)
        progress.finish(VIEW)
    assert capsys.readouterr().out == ""


class Compiled:
    def save(self, path: Path) -> None: ...


def test_tuning_says_so_on_stderr_unless_it_is_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a process of its own, whose last line says why it failed, it is quiet."""

    def tuned(*_: Any, quiet: bool, progress: GraphProgress | None, **__: Any) -> None:
        assert quiet is (progress is None)
        if progress is not None:
            progress.start(VIEW)

    monkeypatch.setattr(api, "tune", tuned)
    monkeypatch.setattr(api, "compile", lambda *_, **__: Compiled())
    net = asd.zoo.build("mlp", image=4)
    options = {"log": "m.jsonl", "budget": "2m"}
    network_module(net, BackendOptions(**options), "graph 1/0")
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("tuning graph 1/0: 2 tasks, at most 2:00, 8 tria")
    network_module(net, BackendOptions(**options, quiet=True))
    tune_and_save(net, BackendOptions(**options), tmp_path)
    assert capsys.readouterr() == ("", "")
