"""What notebooks show: a table that is redrawn, and results as HTML."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.elementwise import UnaryOp
from autosched.measure.result import Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.report.events import ProgressSnapshot, TaskRow
from autosched.report.notebook import NotebookProgress, in_notebook
from autosched.report.progress import PlainProgress, Unfailing, choose_progress
from autosched.runtime.peaks import Peaks
from autosched.tuning.options import QUICK
from sketch.html import html_table
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.targets import SMALL
from tests.support.workloads import matmul_dag

NASTY = "<script>alert('x')</script>&"
ROW = TaskRow("conv2d_relu", "1x56x56x64", 4.0, 2e8, 1e-3, 2e-3, 32, 0, "")
VIEW = ProgressSnapshot((ROW, replace(ROW, name=NASTY)), 1, 64, 100, 12.0, None, 7.0)


class Strict(HTMLParser):
    """Tags that are closed, and the text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        assert "color" not in str(attrs)  # the page's own, light or dark

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(html: str) -> Strict:
    found = Strict()
    found.feed(html)
    assert found.open == [] and "script" not in found.seen
    return found


class FakeDisplay:
    """Stands in for ``IPython.display``: the values of the one cell, in turn."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def HTML(self, text: str) -> str:
        return text

    def display(self, value: str, display_id: bool) -> Any:
        assert display_id
        self.shown.append(value)
        return SimpleNamespace(update=self.shown.append)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> FakeDisplay:
    display = FakeDisplay()
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return display


def ticks(*seconds: float) -> Callable[[], float]:
    values = iter(seconds)
    return lambda: next(values)


def test_a_table_is_redrawn_in_its_cell(notebook: FakeDisplay) -> None:
    progress = NotebookProgress(Peaks(4e11), clock=ticks(0, 0.1, 0.6, 0.7, 0.8, 0.9, 1.0))
    progress.start(VIEW)
    progress.update(VIEW)  # too early
    progress.update(VIEW)
    progress.message("warning: " + NASTY)
    progress.finish(replace(VIEW, current=None, stopped="trials"))
    assert len(notebook.shown) == 4
    texts = [parsed(html).text for html in notebook.shown]
    assert "64/100 trials, estimated total 8 ms" in texts[0] and "50%" in texts[0]
    assert notebook.shown[1].count("font-weight:bold") == 10  # the row of the task at work
    assert "warning: " + NASTY in texts[2]
    assert "estimated total 8 ms after 64 trials, 0:12 (trials)" in texts[3]
    assert "warning" in texts[3] and "bold" not in notebook.shown[3]


def test_many_tasks_are_counted(notebook: FakeDisplay) -> None:
    progress = NotebookProgress(None, clock=ticks(0, 1))
    progress.start(replace(VIEW, rows=(ROW,) * 100, current=50))
    text = parsed(notebook.shown[0]).text
    assert text.count("conv2d_relu") == 23 and "... 77 more tasks" in text


def test_tuning_shows_a_table_in_a_notebook(notebook: FakeDisplay) -> None:
    assert in_notebook()
    task = asd.Task(matmul_dag(8, 8, 8), SMALL, "dense")
    task.tune(4, options=QUICK, runner=SimulatedRunner(), quiet=True)
    assert notebook.shown == []
    task.tune(4, options=QUICK, runner=SimulatedRunner())
    assert "dense" in notebook.shown[0] and "(trials)" in notebook.shown[-1]


def test_elsewhere_there_are_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    chosen = choose_progress()
    assert not in_notebook() and isinstance(chosen, Unfailing)
    assert isinstance(chosen.shown, PlainProgress)
    task = asd.Task(matmul_dag(8, 8, 8), SMALL, "dense")
    task.tune(4, options=QUICK, runner=SimulatedRunner())
    assert capsys.readouterr().out.startswith("tuning 1 task, at most 4 trials\n")


def test_many_rows_are_cut() -> None:
    html = html_table("many", ("a",), [(f"row {n}",) for n in range(500)], notes=["last"])
    text = parsed(html).text
    assert "row 59" in text and "row 60" not in text
    assert text.endswith("... and 440 rows more: print itlast") and len(html) < 8000


def nasty_network() -> Network:
    builder = GraphBuilder("net")
    builder.input(Value(NASTY, (2, 8)))
    y = builder.add(UnaryOp("relu"), [NASTY], name=f"{NASTY}/y")
    return Network(NASTY, builder.finish({"y": y}))


def test_results_are_shown_as_html() -> None:
    net = nasty_network()
    module = asd.compile(net, threads=1, check=False)
    task = asd.Task(matmul_dag(8, 8, 8), SMALL, NASTY)
    result = task.tune(4, options=QUICK, runner=SimulatedRunner(), quiet=True)
    tuning = asd.tune(net, threads=1, trials=2, runner=SimulatedRunner(), quiet=True)
    shown = {
        "1 UnaryOp": net,
        "1 kernel, 1 task": module,
        "medians of 2 runs": module.profile(repeats=2),
        "most lost first": module.explain(repeats=2),
        "after 4 trials": result,
        "B = constant": task,
        "(trials)": tuning,
        "medianmeanstd": module.benchmark(repeats=2),
    }
    for part, value in shown.items():
        html = value._repr_html_()
        text = parsed(html).text
        assert part in text and len(html) < 6000, (part, text)
        assert len(repr(value)) < 4000, part  # what a prompt shows
        assert NASTY in text or (value is result and "GFLOPS" in text)


def test_targets_are_short() -> None:
    """Of hundreds of features it is said how many there are."""
    features = ",".join(f"+feature{n}" for n in range(200))
    cpu = Target("cpu", "arch<5>", features, threads=4, vector_bytes=32)
    assert repr(cpu) == (
        "Target(kind=cpu, arch=arch<5>, threads=4, vector_bytes=32, l1_bytes=32768, "
        "l2_bytes=1048576, l3_bytes=16777216, features=200)"
    )
    text = parsed(cpu._repr_html_()).text
    assert text.startswith("Target arch<5>kindcpuarcharch<5>threads4vector_bytes32")
    assert text.endswith("features200") and "feature1" not in text
    gpu = repr(cuda_target("h200"))
    assert gpu.startswith("Target(kind=cuda, arch=sm_90, threads=132, ") and "h200)" in gpu


def test_records_and_tunings_are_short(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    net = nasty_network()
    tuning = asd.tune(
        [net, net], threads=1, trials=2, log=log, runner=SimulatedRunner(), quiet=True
    )
    assert repr(tuning) == str(tuning) and repr(tuning.networks[0]) == str(tuning.networks[0])
    records = asd.RecordLog(log).read()
    count = len(records.records)
    assert repr(records) == f"RecordSet({count} records of 1 task)"
    assert repr(replace(records, warnings=("torn",))).endswith("of 1 task, 1 warning)")


def test_a_task_without_a_time_has_its_first_failure() -> None:
    task = asd.Task(matmul_dag(8, 8, 8), SMALL, "dense")
    result = task.tune(2, options=QUICK, runner=SimulatedRunner(), quiet=True)
    (item,) = result.tasks
    none = replace(result, tasks=(replace(item, best=None, seconds=float("inf")),))
    assert "no total" in parsed(none._repr_html_()).text
    assert isinstance(result.records[0].result, Timing)
