"""The sum of a network's tasks: all kernels that it has, each timed alone."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from autosched import zoo
from autosched.measure.result import Timing
from autosched.measure.runner import LocalRunner
from benchmarks.networks import tune


class Clock(LocalRunner):
    """A second for each kernel."""

    def remeasure(self, task, candidates, rounds=5):
        assert len(candidates) == 1 and candidates[0].sketch.variant in {
            variant.name for variant in task.variants
        }
        return [Timing((1.0,) * rounds)]


def test_every_kernel_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.networks.LocalRunner", Clock)
    arguments = argparse.Namespace(budget="1s", logs=str(tmp_path), skip_tuned=False)
    found = tune("mlp", zoo.build("mlp", image=4), 1, arguments, tmp_path)
    assert found.sum_of_tasks_ms == 3000.0 and Path(found.module).exists()
