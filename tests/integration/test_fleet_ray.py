"""A cluster of Ray with several nodes, all on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from autosched.fleet.cluster import BUILDS_ONLY, RayCluster, connect
from autosched.fleet.errors import FleetError
from autosched.measure.options import MeasureOptions
from autosched.measure.protocol import Runner
from autosched.measure.result import Timing
from autosched.records.log import RecordLog
from autosched.search.random_search import RandomPolicy
from autosched.task import Task
from autosched.testing import RunnerConformance
from autosched.testing.programs import convolution
from codegen.host import host_target

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

missing = find_spec("ray") is None  # loading it takes a second, in every process of the tests
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing, reason="the extra ray is not installed"),
]

OPTIONS = MeasureOptions(samples=3, builders=1)
MEMORY = {"object_store_memory": 80 * 1024**2}


@pytest.fixture(scope="module")
def nodes():
    """A head that measures nothing, and two nodes of one CPU."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **MEMORY})
    for _ in range(2):
        cluster.add_node(num_cpus=1, **MEMORY)
    yield cluster
    cluster.shutdown()


@pytest.fixture
def fleet(nodes):
    with connect(nodes.address) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def task() -> Task:
    return Task(convolution(), host_target(1))


class TestRay(RunnerConformance):
    repeatable = False

    @pytest.fixture(autouse=True)
    def _connected(self, fleet: RayCluster, task: Task) -> None:
        self.fleet, self.task = fleet, task

    def make(self) -> Runner:
        return self.fleet.runner(self.task.target, OPTIONS)

    def test_answers_do_not_depend_on_the_runner(self) -> None:
        """Two runners at a time share no machine: one after another."""
        for _ in range(2):
            with self.make() as runner:
                results = runner.measure(self.task, self.batch)
                self.assert_alike(results, runner.remeasure(self.task, self.batch, rounds=3))


def batch_of(task: Task, count: int):
    return RandomPolicy(task.space, np.random.default_rng(0)).ask(count)


def test_machines_say_what_they_are(fleet, task):
    assert [machine.target for machine in fleet.machines] == [task.target] * 2
    assert fleet.target() == task.target == fleet.target(fleet.machines[0].label)
    states = fleet.states()
    assert [state.state for state in states] == ["free", "free"]
    assert all(0 < state.sentinel_s < 1 and 0 <= state.noise < 10 for state in states)


def test_a_second_tuner_is_told_that_the_machines_are_busy(fleet, task, monkeypatch):
    with fleet.runner(task.target, OPTIONS):
        monkeypatch.setattr("autosched.fleet.actors._START_S", 3.0)
        with pytest.raises(FleetError, match="another tuner has reserved it"):
            fleet.runner(task.target, OPTIONS)


def test_a_node_that_is_killed_takes_nothing_with_it(nodes, task):
    victim = nodes.add_node(num_cpus=1, **MEMORY)
    with connect(nodes.address) as fleet, fleet.runner(task.target, OPTIONS) as runner:
        assert len(runner.dispatcher.active) == 3
        batch = batch_of(task, 64)
        ticket = runner.submit(task, batch)
        time.sleep(0.5)
        nodes.remove_node(victim, allow_graceful=False)
        results = runner.collect(ticket)
        assert len(runner.dispatcher.active) == 2
    assert len(results) == 64 and any(isinstance(result, Timing) for result in results)


def tuning(nodes: Cluster, log: Path, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "autosched", "tune", "--workload", "GMM",
        "--args", "n=64,m=64,k=64", "--runner", "ray", "--threads", "1", "--quiet",
        "--log", str(log), *more,
    ]  # fmt: skip


def test_the_command_tunes_and_goes_on_after_it_was_killed(nodes, tmp_path):
    log, environment = tmp_path / "log.jsonl", {**os.environ, "RAY_ADDRESS": nodes.address}
    first = subprocess.Popen(tuning(nodes, log, "--trials", "400"), env=environment)
    while not (log.exists() and len(log.read_text().splitlines()) > 20):
        assert first.poll() is None
        time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = RecordLog(log).read().records
    trials = len(before) + 24
    subprocess.run(tuning(nodes, log, "--trials", str(trials)), env=environment, check=True)
    found = [r for r in RecordLog(log).read().records if r.phase == "trial"]
    assert len(found) == trials and len({r.candidate_key for r in found}) == trials
    assert [r.trial for r in found] == list(range(1, trials + 1))


def refused(nodes: Cluster, folder: Path) -> str:
    """What is said of a node whose Python looks into a folder first."""
    import ray

    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    node = nodes.add_node(num_cpus=1, env_vars={"PYTHONPATH": path}, **MEMORY)
    try:
        with pytest.raises(FleetError) as caught:
            connect(nodes.address)
    finally:
        nodes.remove_node(node, allow_graceful=False)
    assert not ray.is_initialized()
    return str(caught.value)


def test_a_node_of_another_release_is_refused(nodes, tmp_path):
    info = tmp_path / "autosched-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: autosched\nVersion: 9.9\n")
    assert "has autosched 9.9, not " in refused(nodes, tmp_path)


HIDDEN = """
import sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name == "autosched":
            raise ModuleNotFoundError("No module named 'autosched'")

sys.meta_path.insert(0, Nowhere())
"""


def test_a_node_without_the_package_is_refused(nodes, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(HIDDEN)
    assert "has no package autosched: ModuleNotFoundError" in refused(nodes, tmp_path)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_an_error_at_once(address):
    began = time.monotonic()
    with pytest.raises(FleetError, match=f"no cluster of Ray can be reached at {address}"):
        connect(address)
    assert time.monotonic() - began < 5


def test_a_machine_that_builds_for_others(nodes, task):
    builder = nodes.add_node(num_cpus=1, resources={BUILDS_ONLY: 1}, **MEMORY)
    try:
        with connect(nodes.address) as fleet, fleet.runner(task.target, OPTIONS) as runner:
            assert [machine.builds_only for machine in fleet.machines].count(True) == 1
            assert len(runner.dispatcher.active) == 2
            results = runner.measure(task, batch_of(task, 12))
            assert sum(isinstance(r, Timing) and r.build_s is not None for r in results) > 6
            nodes.remove_node(builder, allow_graceful=False)
            assert len(runner.measure(task, batch_of(task, 24))) == 24
    finally:
        if builder in nodes.worker_nodes:
            nodes.remove_node(builder, allow_graceful=False)
