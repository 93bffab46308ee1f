"""Kernels that stay loaded for an interleaved re-measurement: none is left behind."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from autosched.measure.messages import TimingRequest
from autosched.measure.options import MeasureOptions
from autosched.measure.result import WRONG_RESULT, Failure
from autosched.measure.task_memory import TaskMemory
from autosched.measure.timing_worker import TimingWorker
from codegen.gpu.errors import DeviceMemoryError
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import compute, placeholder
from sketch.schedule.sketch import Sketch
from tests.support.targets import AVX512

A = placeholder((4,), name="A")
DAG = ComputeDAG([compute((4,), lambda i: A[i] + 1, name="B")])
SKETCH = Sketch(DAG, (), AVX512)


class Room:
    """A bench with room for a few kernels, which are their own errors; see ``Bench``."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.loaded: list[float] = []
        self.run_s, self.runs = 1e-3, 0
        self.forgotten: list[int] = []

    def copies(self, dag: ComputeDAG) -> int:
        return 1

    def load(
        self, kernel: float, memory: TaskMemory, sketch: Sketch, values: Mapping[str, int]
    ) -> float:
        if len(self.loaded) == self.room:
            raise DeviceMemoryError("no room")
        self.loaded.append(kernel)
        return kernel

    def run(self, loaded: float, runs: int, state: str) -> float:
        if loaded < 0:
            raise DeviceMemoryError("no room to run")
        self.runs += runs
        return self.run_s

    def forget(self) -> None:
        """Notes how many kernels are loaded."""
        self.forgotten.append(len(self.loaded))

    def waiting(self) -> float:
        return 1.25

    def error(self, memory: TaskMemory, loaded: float) -> float:
        return loaded

    def unload(self, loaded: float) -> None:
        self.loaded.remove(loaded)


def started(bench: Room) -> TimingWorker:
    worker = TimingWorker(MeasureOptions(), lambda: bench)
    worker.task(DAG.key, pickle.dumps(DAG), pickle.dumps(None))
    worker.sketch(SKETCH.key, pickle.dumps(SKETCH))
    return worker


def load(worker: TimingWorker, error: float, slot: int) -> Any:
    return worker.load(TimingRequest(DAG.key, SKETCH.key, {}, pickle.dumps(error)), slot)


def test_a_number_that_is_used_again_gives_its_kernel_back_first() -> None:
    bench = Room(2)
    worker = started(bench)
    assert [load(worker, error, slot) for error, slot in ((0.0, 0), (1e-9, 1), (2e-9, 0))] == [
        0.0, 1e-9, 2e-9,
    ]  # fmt: skip
    assert bench.loaded == [1e-9, 2e-9]
    assert worker.sample(0) == worker.sample(1) == 1e-3
    worker.task(DAG.key, pickle.dumps(DAG), pickle.dumps(None))
    assert bench.forgotten == [0]  # when all are unloaded
    assert bench.loaded == []


@pytest.mark.parametrize(("error", "kind"), [(1.0, WRONG_RESULT), (-1.0, "DeviceMemoryError")])
def test_a_kernel_that_is_wrong_or_does_not_run_is_not_kept(error: float, kind: str) -> None:
    bench = Room(1)
    worker = started(bench)
    for _ in range(2):
        failed = load(worker, error, 0)
        assert isinstance(failed, Failure) and failed.kind == kind
    assert bench.loaded == []
    assert load(worker, 0.0, 0) == 0.0


@pytest.mark.parametrize(("run_s", "runs"), [(0.01, 6), (0.2, 3), (0.4, 2), (0.7, 1)])
def test_a_sample_takes_no_longer_than_a_burst(run_s: float, runs: int) -> None:
    """Or one run, where that takes longer."""
    bench = Room(1)
    worker = started(bench)
    load(worker, 0.0, 0)
    bench.run_s, bench.runs = run_s, 0
    assert worker.sample(0) == run_s and bench.runs == runs
