"""Runners by name, from the command line and from Python; the cluster is not Ray's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.fleet.chosen import check_runner, fleet_of
from autosched.fleet.cluster import RayCluster
from autosched.fleet.machine import this_machine
from autosched.fleet.runner import FleetRunner
from autosched.measure.options import MeasureOptions
from autosched.records.log import RecordLog
from autosched.system.errors import MissingPackageError, OptionError
from sketch.target.target import Target
from tests.support.crews import SimulatedCrew


class OwnCluster(RayCluster):
    """This machine, simulated; remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__([this_machine("0123456789", 2, 0.0, False)], own=False)
        self.asked: list[Target] = []

    def runner(self, target: Target, options: MeasureOptions | None = None) -> FleetRunner:
        self.asked.append(target)
        return FleetRunner(SimulatedCrew("ab"), piece_trials=2)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> OwnCluster:
    found = OwnCluster()
    monkeypatch.setattr("autosched.fleet.cluster.connect", lambda address: found)
    return found


def test_names_of_runners() -> None:
    assert check_runner("ray") == "ray" and check_runner("ray://h:1") == "ray://h:1"
    for wrong in ("", "local", "ray:", "ray://", "rays", "h:6379"):
        with pytest.raises(OptionError, match="there is no runner"):
            check_runner(wrong)
    with fleet_of(None) as fleet:
        assert fleet is None


def test_a_network_is_tuned_on_a_cluster(cluster: OwnCluster, tmp_path: Path) -> None:
    net, log = asd.zoo.build("mlp", image=4), tmp_path / "mlp.jsonl"
    label = cluster.machines[0].label
    tuning = asd.tune(net, label, trials=6, threads=1, runner="ray", log=log, quiet=True)
    assert tuning.result.trials == 6
    assert [target.threads for target in cluster.asked] == [1]
    assert {record.target.threads for record in RecordLog(log).read().records} == {1}


def test_the_command_tunes_on_a_cluster(
    cluster: OwnCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, result = str(tmp_path / "log.jsonl"), tmp_path / "result.json"
    words = [
        "tune",
        "--workload",
        "GMM",
        "--args",
        "n=8,m=8,k=8",
        "--trials",
        "6",
        "--runner",
        "ray",
    ]
    assert main([*words, "--log", log, "--json", str(result)]) == 0
    assert f"everything measured is in {log}" in capsys.readouterr().out
    assert json.loads(result.read_text())["trials"] == 6


def test_the_command_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["tune", "mlp", "--runner", "raygun"])
    assert "there is no runner 'raygun': give ray or ray://HOST:PORT" in capsys.readouterr().err
    monkeypatch.setattr("autosched.system.optional_packages.find_spec", lambda name: None)
    assert main(["fleet"]) == 1
    told = capsys.readouterr().err
    assert "the package 'ray' is not installed" in told and "autosched[ray]" in told
    with pytest.raises(MissingPackageError):
        fleet_of("ray://h:1")
