"""Samples during which another process had a core are taken again."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.measure.cpu_worker import CpuBench
from autosched.measure.execution import Harness, LoadedKernel, aligned_copy, aligned_empty
from autosched.measure.messages import TimingSetup
from autosched.measure.options import MeasureOptions
from codegen.host import host_target
from codegen.kernel import Kernel
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import compute, placeholder


class Samples:
    """What a harness measures: seconds, and whether a thread had to wait."""

    def __init__(self, *samples: tuple[float, bool]) -> None:
        self.left, self.waited = list(samples), False

    def run(self, loaded: Any, runs: int, state: str) -> float:
        seconds, self.waited = self.left.pop(0)
        return seconds


def taken(*samples: tuple[float, bool], cores: int = 1, runs: int = 1) -> tuple[float, int]:
    """What a bench makes of samples, and how many it took."""
    bench = CpuBench(TimingSetup(host_target(1), MeasureOptions()), range(cores))
    harness = Samples(*samples)
    bench._harness = harness  # type: ignore[assignment]
    seconds = bench.run(None, runs, "warm")  # type: ignore[arg-type]
    return seconds, len(samples) - len(harness.left)


def test_a_sample_counts_during_which_no_thread_had_to_wait() -> None:
    assert taken((1e-4, False), (5e-5, False)) == (1e-4, 1)
    assert taken((9e-4, True), (8e-4, True), (1e-4, False), (5e-5, False)) == (1e-4, 3)


def test_where_each_has_to_wait_the_fastest_counts() -> None:
    slow, quick = (9e-4, True), (3e-4, True)
    assert taken(slow, quick, slow, slow, slow) == (3e-4, 4)


def test_how_long_the_others_had_the_cores() -> None:
    bench = CpuBench(TimingSetup(host_target(1), MeasureOptions()), [0])
    assert bench.waiting() == 1.0
    bench._harness = Samples((3e-4, True), (1e-4, False), (2e-4, False))  # type: ignore[assignment]
    for _ in range(2):
        bench.run(None, 2, "warm")  # type: ignore[arg-type]
    assert bench.waiting() == pytest.approx(6 / 4) and bench.waiting() == 1.0


def test_a_long_sample_is_taken_once() -> None:
    assert taken((1e-2, True), (1e-4, False), runs=2) == (1e-2, 1)


def test_threads_that_share_a_core_always_wait() -> None:
    assert taken((9e-4, True), (1e-4, False), cores=2) == (9e-4, 1)


@pytest.mark.parametrize("switches", [(7, 7), (7, 8)])
def test_the_system_says_whether_a_thread_had_to_wait(
    switches: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    a = placeholder((8,), name="a")
    dag = ComputeDAG([compute((8,), lambda i: a[i] + 1.0, name="b")])
    kernel = autosched.Task(dag, autosched.Target("cpu", threads=1)).compile()
    assert isinstance(kernel, Kernel)
    counts: Iterator[int] = iter(switches)
    arrays = [aligned_copy(np.zeros(8, "float32")), aligned_empty((8,), "float32")]
    loaded = LoadedKernel(kernel, [*arrays, aligned_empty((1,), "uint8")], {})
    harness = Harness(kernel.target)
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_nivcsw=next(counts)))
    assert harness.run(loaded, 1, "warm") > 0
    assert harness.waited is (switches[0] != switches[1])
    assert arrays[1].tolist() == [1.0] * 8
