"""The benchmark of a disturbed machine: what it starts, ends and sums up."""

from __future__ import annotations

from autosched.measure.result import Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.tuning.options import TuneOptions
from autosched.workloads.builtin import get
from benchmarks.disturbed import Disturber, measure, summary
from sketch.target.target import Target

TARGET = Target("cpu", "simulated", threads=2)


def test_processes_begin_in_the_middle_and_end_with_the_run() -> None:
    task = get("GMM").task(1, 16, 16, 16, target=TARGET)
    with Disturber(2, 4) as disturber:
        disturber.on_batch(task, [], [Timing((1.0,))] * 3)
        assert not disturber.running
        disturber.on_batch(task, [], [Timing((1.0,))])
        started = disturber.running
        assert [process.poll() for process in started] == [None, None]
        disturber.on_batch(task, [], [Timing((1.0,))])
        assert disturber.running is started
    assert all(process.poll() is not None for process in started)


def test_equal_machines_choose_alike() -> None:
    task = get("GMM").task(1, 32, 32, 32, target=TARGET)
    row = measure(task, TuneOptions(trials=12), 0, SimulatedRunner())
    assert row["slower"] == 1.0 and not row["told"]
    found = summary([row, {**row, "slower": 1.21, "told": ["the machine was disturbed"]}])
    assert abs(found["slower"] - 1.1) < 1e-9 and found["worst"] == 1.21
    assert found["runs_told"] == 1 and not found["bar"]["holds"]
