"""The simulated fleet keeps what runners promise, and is as fast as its devices."""

from __future__ import annotations

from autosched.measure.protocol import Runner
from autosched.testing import RunnerConformance
from autosched.testing.programs import small_task
from benchmarks.fleet import SPREAD, TRIAL_S, SimulatedFleet, simulate


class TestSimulatedFleet(RunnerConformance):
    def make(self) -> Runner:
        return SimulatedFleet(3, seed=1)

    def test_devices_work_at_the_same_time(self) -> None:
        runner = SimulatedFleet(3, seed=1)
        began = runner.clock()
        runner.measure(self.task, self.batch)  # a piece of eight, and one of four
        passed = runner.clock() - began
        assert 8 * TRIAL_S * (1 - 4 * SPREAD) < passed < 10 * TRIAL_S * (1 + 4 * SPREAD)


def test_a_run_on_many_devices_makes_all_trials() -> None:
    found = [simulate(devices, 16, 0, [small_task()]) for devices in (0, 2)]
    assert [run.trials for run in found] == [16, 16]
    assert all(0 < run.times[0] < 1 and run.seconds > 0 for run in found)
