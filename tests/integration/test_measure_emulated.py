"""Candidates of a GPU on the emulated device: faults are results, and the runner goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from autosched.measure.options import MeasureOptions
from autosched.measure.result import WRONG_RESULT, Failure, MeasureResult, Timing
from autosched.measure.runner import LocalRunner
from autosched.tasks.candidate import Candidate
from codegen.gpu.emulation.library import compiler
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target, emulated
from tests.support import faulty_kernels as faults
from tests.support.faulty_task import SmallTask, product

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

TARGET = emulated(cuda_target("t4"))
TASK = SmallTask(product(), TARGET)
SKETCH = Sketch(TASK.dag, (), TARGET)
# Patient: a C++ compiler on a busy machine takes long.
OPTIONS = MeasureOptions(
    check="all", builders=1, samples=3, build_timeout_s=300.0, run_timeout_s=120.0
)


def measure(runner: LocalRunner, *chosen: int) -> list[MeasureResult]:
    return runner.measure(TASK, [Candidate(SKETCH, {"fault": fault}) for fault in chosen])


def assert_fine(result: MeasureResult) -> None:
    assert isinstance(result, Timing), result
    assert result.error is not None and result.error < 1e-6
    assert max(result.seconds) == pytest.approx(min(result.seconds))


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    with LocalRunner(TARGET, OPTIONS, faults.build) as shared:
        yield shared


@pytest.mark.parametrize(
    "fault, stage, kind, message",
    [
        (faults.WRONG, "verify", WRONG_RESULT, "relative error"),
        (faults.UNWRITTEN, "verify", WRONG_RESULT, "relative error inf"),
        (faults.TRAP, "run", "DeviceLostError", "a thread stops with a trap"),
        (faults.DIVERGENT, "run", "DeviceLostError", "do not reach a barrier"),
        (faults.SEGFAULT, "run", "SIGSEGV", "took its process down"),
        (faults.NO_TEXT, "load", "DeviceLaunchError", "refuses the program"),
        (faults.SPILLS, "compile", "InfeasibleError", "8 bytes of spilled registers"),
        (faults.LARGE, "load", "DeviceMemoryError", "bytes of device memory are wanted"),
    ],
)
def test_a_fault_is_a_failure_and_the_next_candidate_is_measured(
    runner: LocalRunner, fault: int, stage: str, kind: str, message: str
) -> None:
    first, failed, last = measure(runner, faults.RIGHT, fault, faults.RIGHT)
    assert isinstance(failed, Failure)
    assert (failed.stage, failed.kind) == (stage, kind), failed
    assert message in failed.message
    assert_fine(first)
    assert_fine(last)


def test_remeasuring_survives_a_lost_device(runner: LocalRunner) -> None:
    chosen = (faults.RIGHT, faults.TRAP, faults.WRONG, faults.RIGHT)
    candidates = [Candidate(SKETCH, {"fault": fault}) for fault in chosen]
    results = runner.remeasure(TASK, candidates, rounds=2)
    assert [getattr(r, "kind", None) for r in results] == [
        None, "DeviceLostError", WRONG_RESULT, None,
    ]  # fmt: skip
    for result in (results[0], results[-1]):
        assert_fine(result)
        assert len(result.seconds) == 2


@pytest.mark.parametrize("state", ["l2_cold", pytest.param("dram_cold", marks=pytest.mark.slow)])
def test_caches_may_be_flushed_before_each_run(state: str) -> None:
    options = replace(OPTIONS, cache_state=state)
    target = replace(TARGET, l2_bytes=1 << 16)
    candidate = Candidate(Sketch(TASK.dag, (), target), {"fault": faults.RIGHT})
    with LocalRunner(target, options, faults.build) as cold:
        (result,) = cold.measure(SmallTask(product(), target), [candidate])
    assert_fine(result)
    assert result.cache_state == state
