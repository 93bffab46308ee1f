"""The runner of a fleet, on machines that are threads."""

from __future__ import annotations

import threading

import pytest

from autosched.fleet.errors import FleetError, MachineLostError
from autosched.fleet.runner import FleetRunner
from autosched.measure.errors import MeasureError
from autosched.measure.protocol import Runner
from autosched.measure.simulated import SimulatedRunner
from autosched.records.log import RecordLog
from autosched.search.models import make_model
from autosched.search.options import SearchOptions
from autosched.testing import RunnerConformance
from autosched.testing.programs import large_task
from autosched.tuning.options import TuneOptions
from tests.support.crews import SimulatedCrew

QUICK = SearchOptions(population=64, generations=1, batch_trials=8, sketch_rows=16)


class TestFleetRunner(RunnerConformance):
    def make(self) -> Runner:
        return FleetRunner(SimulatedCrew("abc"), piece_trials=2)

    def test_all_machines_share_a_batch(self) -> None:
        meeting = threading.Barrier(3)
        crew = SimulatedCrew("abc", lambda machine: meet(meeting))
        with FleetRunner(crew, piece_trials=4) as runner:
            assert runner.trials_in_flight == 48
            results = runner.measure(self.task, self.batch)
        assert results == SimulatedRunner(seed=3).measure(self.task, self.batch)
        assert sorted(crew.measured) == [("a", 4), ("b", 4), ("c", 4)]


def meet(barrier: threading.Barrier) -> None:
    barrier.wait(timeout=10)


def dying(name: str, kind: type[Exception] = MachineLostError):
    """Loses a machine at its first piece."""

    def before(machine: str) -> None:
        if machine == name:
            raise kind(f"machine {machine} is lost")

    return before


@pytest.mark.parametrize("kind", [MachineLostError, ConnectionError, RuntimeError])
def test_a_batch_survives_a_machine(kind: type[Exception]) -> None:
    suite = TestFleetRunner()
    with FleetRunner(SimulatedCrew("ab", dying("a", kind)), piece_trials=2) as runner:
        results = runner.measure(suite.task, suite.batch)
    assert results == SimulatedRunner(seed=3).measure(suite.task, suite.batch)


@pytest.mark.parametrize("kind", [MachineLostError, ConnectionError])
def test_without_machines_the_tuner_is_told_why(kind: type[Exception]) -> None:
    suite = TestFleetRunner()
    told = "no machine of the fleet is left: a: machine a"
    with (
        FleetRunner(SimulatedCrew("a", dying("a", kind))) as runner,
        pytest.raises(FleetError, match=told),
    ):
        runner.measure(suite.task, suite.batch)


def test_a_noisy_machine_is_measured_again() -> None:
    times = iter([1e-3] * 4 + [2e-3] + [1e-3] * 9)
    crew = SimulatedCrew("a", sentinel=lambda machine: next(times))
    with FleetRunner(crew, piece_trials=1) as runner:
        suite = TestFleetRunner()
        results = runner.measure(suite.task, suite.batch)
        assert runner.dispatcher.dropped == 1 and len(crew.measured) == 13
    assert len(results) == 12


def test_a_closed_runner_says_so() -> None:
    runner = FleetRunner(SimulatedCrew("a"))
    runner.close()
    with pytest.raises(MeasureError, match="closed"):
        runner.submit(large_task(), [])


def logged(path, machines: str, **more) -> list[str]:
    log = RecordLog(path)
    options = TuneOptions(trials=24, search=QUICK, seed=1, leaders=0)
    model = make_model("draft", 0)
    with FleetRunner(SimulatedCrew(machines, **more), piece_trials=2) as runner:
        large_task().tune(log=path, options=options, runner=runner, cost_model=model, quiet=True)
    return [record.candidate_key for record in log.read().records if record.phase == "trial"]


@pytest.mark.slow
def test_tuning_asks_for_the_same_whichever_machine_is_faster(tmp_path) -> None:
    turns = iter(range(10**6))

    def uneven(machine: str) -> None:
        threading.Event().wait(1e-4 * (next(turns) * 7 % 5))

    even = logged(tmp_path / "even.jsonl", "abc")
    assert len(even) == len(set(even)) == 24
    assert logged(tmp_path / "uneven.jsonl", "abc", before=uneven) == even
