"""Compiling with little measuring first: what is tuned, what is compiled, what is kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.measure.simulated import SimulatedRunner
from autosched.records.log import RecordLog
from autosched.system.errors import OptionError

NET = asd.zoo.build("mlp", image=4)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    def runner(*_: Any) -> SimulatedRunner:
        return SimulatedRunner()

    monkeypatch.setattr("autosched.measure.runner.LocalRunner", runner)


def test_quick_measures_eight_of_each_and_compiles_the_best(
    simulated: None, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    module = asd.compile(NET, threads=1, log=log, effort="quick")
    assert not module.untuned
    records = RecordLog(log).read().records
    trials = Counter(record.task for record in records if record.phase == "trial")
    assert len(trials) == 3 and set(trials.values()) == {8}
    for task in asd.extract_tasks(NET, threads=1):  # what the draft would compile comes first
        first = next(record for record in records if record.task == task.key)
        assert first.candidate(task.dag).key == task.draft_candidate().key
    asd.compile(NET, threads=1, log=log, effort="quick")
    assert len(RecordLog(log).read().records) == len(records)  # nothing is left to measure


def test_the_command_line_has_it(simulated: None, tmp_path: Path) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "gmm.asd"
    line = f"compile --workload GMM --args n=16,m=16,k=16 --threads 1 --quiet -o {out} --log {log}"
    assert main([*line.split(), "--effort", "quick"]) == 0
    trials = [r for r in RecordLog(log).read().records if r.phase == "trial"]
    assert len(trials) == 8 and not asd.load(out).untuned


def test_quick_without_a_log_leaves_none(
    simulated: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not asd.compile(NET, threads=1, effort="quick").untuned
    assert not list(tmp_path.iterdir())


def test_where_nothing_runs_the_draft_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    def runner(*_: Any) -> SimulatedRunner:
        return SimulatedRunner(failure_share=1.0)

    monkeypatch.setattr("autosched.measure.runner.LocalRunner", runner)
    with pytest.warns(UserWarning, match="candidates ran"):
        assert len(asd.compile(NET, threads=1, effort="quick").untuned) == 3


def test_efforts_are_checked() -> None:
    with pytest.raises(OptionError, match="effort"):
        asd.compile(NET, effort="much")  # type: ignore[arg-type]
