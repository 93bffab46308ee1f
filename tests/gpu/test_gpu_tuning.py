"""Tuning on a device: a small product, and candidates that break the device for their process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.measure.options import MeasureOptions
from autosched.measure.result import Failure, Timing
from autosched.measure.runner import LocalRunner
from autosched.tasks.candidate import Candidate
from autosched.tuning.options import QUICK
from sketch.operators.matmul import matmul
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target
from tests.support import faulty_kernels as faults
from tests.support.faulty_task import SmallTask, product

# A C++ compiler of the emulated device on a busy machine takes long.
PATIENT = MeasureOptions(check="all", build_timeout_s=300.0, run_timeout_s=120.0)

pytestmark = pytest.mark.slow  # several processes for each device


def test_a_product_is_tuned_and_its_module_computes_it(
    target: Target, tmp_path: Path, rng: np.random.Generator
) -> None:
    lhs, rhs = (asd.placeholder((48, 48), name=name) for name in "AB")
    task = asd.Task(asd.ComputeDAG([matmul(lhs, rhs, name="C")]), target)
    log = tmp_path / "task.jsonl"
    result = task.tune(trials=4, log=log, options=QUICK, measure=PATIENT)
    timings = [r.result for r in result.records if isinstance(r.result, Timing)]
    assert result.trials == 4 and timings
    assert max(t.error for t in timings if t.error is not None) < 1e-5
    arrays = {name: rng.standard_normal((48, 48)).astype(np.float32) for name in "AB"}
    found = task.module(log=log).run(arrays)["C"]
    assert np.abs(found - arrays["A"] @ arrays["B"]).max() < 1e-3


def test_faults_are_results_and_the_next_candidate_is_measured(target: Target) -> None:
    task = SmallTask(product(), target)
    sketch = Sketch(task.dag, (), target)
    kinds = {faults.TRAP: "DeviceLostError", faults.LARGE: "DeviceMemoryError"}
    order = [faults.RIGHT, faults.TRAP, faults.RIGHT, faults.LARGE, faults.RIGHT]
    options = replace(PATIENT, builders=1, samples=3)
    with LocalRunner(target, options, faults.build) as runner:
        results = runner.measure(task, [Candidate(sketch, {"fault": fault}) for fault in order])
    for fault, result in zip(order, results, strict=True):
        if fault in kinds:
            assert isinstance(result, Failure) and result.kind == kinds[fault], result
        else:
            assert isinstance(result, Timing) and result.error is not None, result
