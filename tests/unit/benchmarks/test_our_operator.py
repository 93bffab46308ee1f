"""Our contender of single operators: any variant's outputs have the shapes that rivals' have."""

from __future__ import annotations

import os

import numpy as np
import pytest

from autosched.task import Task
from autosched.tasks.candidate import Candidate
from benchmarks.ours import OursOperator
from benchmarks.programs import operator_task
from benchmarks.workloads import Conv, IntegerConv
from sketch.population.population import sample

WORKLOAD = IntegerConv(Conv("pixels", size=7, channels=64, filters=32, kernel=1))
VARIANTS = [variant.name for variant in operator_task(WORKLOAD, 1).variants]


@pytest.fixture
def cores():
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)  # the contender binds its caller


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("variant", VARIANTS)
def test_outputs_are_those_of_the_workload(variant, monkeypatch, tmp_path):
    task = operator_task(WORKLOAD, 1)
    sketch = next(found for found in task.sketches if found.variant == variant)
    chosen = Candidate(sketch, sample(sketch, 1, np.random.default_rng(0)).row(0))
    monkeypatch.setattr(Task, "candidate", lambda self, log: chosen)
    prepared = OursOperator(str(tmp_path / "log.jsonl")).prepare(WORKLOAD, 1)
    prepared.run()
    found, given = prepared.outputs()["Y"], WORKLOAD.arrays()
    sums = given["X"].astype(np.int64)[0] @ given["W"].astype(np.int64)[0, 0]
    wanted = np.clip(np.round(sums * WORKLOAD.scale), 0, 255)[np.newaxis]
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() == 0
