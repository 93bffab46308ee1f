"""With a network a report has its graph, its weights, and points under the roofs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import autosched as asd
from autosched.compilation.network import extract_checked, network_tasks
from autosched.measure.simulated import SimulatedRunner
from autosched.page.blocks import PageChart
from autosched.records.errors import RecordError
from autosched.records.record import Record
from autosched.report.page.choices import landscape_section
from autosched.report.page.graph import network_section
from autosched.report.page.network import levels_of, operators_of
from autosched.report.page.roofs import Roofs, roofline_section
from autosched.report.page.subject import ReportSubject, runs_of
from autosched.runtime.explanation import Machine
from autosched.system.errors import OptionError
from autosched.tuning.networks import NetworkTuning, SessionTuning
from tests.support.report_logs import LOG, fake_library


@pytest.fixture(scope="module")
def tuned() -> NetworkTuning:
    net = asd.zoo.build("mlp", image=8)
    return asd.tune(net, trials=6, threads=2, runner=SimulatedRunner(), quiet=True)


@pytest.fixture(scope="module")
def subject(tuned: NetworkTuning) -> ReportSubject:
    extraction = extract_checked(tuned.network, tuned.target)
    specs = {task.key: task for task in network_tasks(extraction, tuned.target)}
    runs = runs_of("mlp.jsonl", tuned.records, specs)
    return ReportSubject("mlp", runs, specs, operators_of(extraction))


def test_operators_are_a_graph(subject: ReportSubject) -> None:
    assert len(subject.operators) >= 3
    assert levels_of(subject.operators) == tuple(range(len(subject.operators)))
    (chart,) = network_section(subject).blocks
    assert isinstance(chart, PageChart)
    assert len(chart.table.rows) == len(subject.operators)
    nodes = chart.spec["layer"][1]["data"]["values"]
    assert all(node["us"] > 0 for node in nodes)


def test_points_are_under_the_roofs(subject: ReportSubject) -> None:
    machine = Machine(1e11, 1e10, 1000, 2)
    chart = roofline_section(subject, Roofs(machine, "roofs")).blocks[0]
    assert isinstance(chart, PageChart)
    points = chart.spec["layer"][0]["data"]["values"]
    assert {point["task"] for point in points} == {task.label for task in subject.main.timed}
    roof = chart.spec["layer"][1]["data"]["values"]
    assert roof[1] == {"intensity": 10.0, "speed": 100.0} and roof[2]["speed"] == 100.0
    alone = roofline_section(subject, Roofs(None, "elsewhere")).blocks[0]
    assert isinstance(alone, PageChart) and len(alone.spec["layer"]) == 1


def test_weights_count(subject: ReportSubject, tuned: NetworkTuning) -> None:
    assert subject.main.total_s == pytest.approx(tuned.result.total_s, rel=0.2)


def test_decisions_are_called_as_in_the_program(tuned: NetworkTuning) -> None:
    task = max(tuned.result.tasks, key=lambda item: item.trials).task
    record = next(r for r in tuned.records if r.task == task.key and len(r.decisions) > 1)
    other = replace(record, time=record.time + 1, phase="trial")
    runs = runs_of("log", (record, other), {task.key: task})
    for specs, named in (({task.key: task}, True), ({}, False)):
        chart = landscape_section(ReportSubject("mlp", runs, specs)).blocks[0]
        assert isinstance(chart, PageChart)
        names = chart.spec["tasks"][0]["names"]
        stages = [stage.name for stage in task.variant(record.variant).dag.stages]
        assert all(any(name.startswith(s) for s in stages) for name in names) == named


def test_a_result_writes_its_own_report(
    tuned: NetworkTuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_library(monkeypatch)
    monkeypatch.setattr("autosched.report.page.writing.roofs_of", lambda _: Roofs(None, "none"))
    tuned.report(tmp_path / "network.html")
    assert "Operators in the order of execution" in (tmp_path / "network.html").read_text()
    tuned.result.report(tmp_path / "tasks.html")
    assert "Each task against its roof" in (tmp_path / "tasks.html").read_text()
    session = SessionTuning((tuned, tuned), tuned.result)
    assert session.report().text == (tmp_path / "tasks.html").read_text()
    with pytest.raises(OptionError, match="the report cannot be written"):
        tuned.result.report(tmp_path)


def test_a_log_of_two_networks_is_an_error(subject: ReportSubject) -> None:
    mine: tuple[Record, ...] = subject.main.records
    with pytest.raises(RecordError, match="of another network, too: 3 of its"):
        runs_of("two.jsonl", (*mine, *LOG), subject.specs)
    with pytest.raises(RecordError, match="no record is of a task of this network"):
        runs_of("other.jsonl", [replace(record) for record in LOG], subject.specs)
