"""The sum of a network's tasks: all kernels that it has, each next to the network."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from autosched import zoo
from autosched.measure.result import Failure, Timing
from autosched.measure.runner import LocalRunner
from benchmarks.alone import share
from benchmarks.networks import tune
from benchmarks.worker import ContenderError


class Clock(LocalRunner):
    """A second for each kernel."""

    def remeasure(self, task, candidates, rounds=5):
        assert len(candidates) == 1 and candidates[0].sketch.variant in {
            variant.name for variant in task.variants
        }
        return [Timing((1.0,) * rounds)]


class Broken(LocalRunner):
    """Kernels do not run."""

    def remeasure(self, task, candidates, rounds=5):
        return [Failure("run", "SIGSEGV", "")]


def tuned(folder: Path):
    arguments = argparse.Namespace(budget="1s", logs=str(folder), skip_tuned=False)
    return tune("mlp", zoo.build("mlp", image=4), 1, arguments, folder)


def test_every_kernel_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.alone.LocalRunner", Clock)
    monkeypatch.setattr("benchmarks.alone._turn", lambda worker: 10.0 * len(worker.time(0, 1)))
    found = tuned(tmp_path)
    assert found.sum_of_tasks == pytest.approx(0.3) and Path(found.module).exists()


def test_a_kernel_that_does_not_run_is_no_kernel_without_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.alone.LocalRunner", Broken)
    with pytest.raises(ContenderError, match="does not run alone"):
        tuned(tmp_path)


def test_a_slow_machine_does_not_change_a_share() -> None:
    slowdowns = (1.0 + 0.2 * (number % 7) for number in range(100))
    now = 1.0

    def kernel() -> float:
        return 0.25 * now

    def network() -> float:
        nonlocal now
        now = next(slowdowns)
        return now

    assert share(kernel, lambda: 2.0 * now) == 0.125
    assert share(kernel, network) == pytest.approx(0.25, rel=0.1)
