"""What goes wrong in a compiler or a kernel becomes a value; the runner goes on."""

import math
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.measure.errors import MeasureError
from autosched.measure.options import MeasureOptions
from autosched.measure.result import WRONG_RESULT, Failure, Timing
from autosched.measure.runner import LocalRunner
from codegen.host import host_target
from sketch.errors import TargetError
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target
from tests.support.faulty_task import TARGET, TASK, candidate, faults

OPTIONS = MeasureOptions(
    check="all",
    builders=2,
    wake_s=0.0,
    build_timeout_s=2.0,
    run_timeout_s=2.0,
    samples=3,
    min_sample_s=1e-6,
)


@pytest.fixture(scope="module")
def runner():
    with LocalRunner(TARGET, OPTIONS, faults.build) as shared:
        yield shared


def measure(runner, *faults):
    return runner.measure(TASK, [candidate(fault) for fault in faults])


def assert_fine(result):
    assert isinstance(result, Timing), result
    assert result.error is not None and result.error < 1e-6


@pytest.mark.parametrize(
    "fault, stage, kind, message",
    [
        (faults.SEGFAULT, "run", "SIGSEGV", "took its process down"),
        (faults.ILLEGAL, "run", "SIGILL", "took its process down"),
        (faults.HANG, "timeout", "run", "2 s"),
        (faults.WRONG, "verify", WRONG_RESULT, "relative error"),
        (faults.A_LITTLE_OFF, "verify", WRONG_RESULT, "relative error"),
        (faults.UNWRITTEN, "verify", WRONG_RESULT, "relative error inf"),
        (faults.STRANGER, "load", "MeasureError", "'B', which is no input"),
        (faults.NO_IR, "compile", "RuntimeError", "parsing error"),
        (faults.NO_NEST, "lower", "LoweringError", "no tile fits | stage C | use another"),
        (faults.BUILDER_DIES, "compile", "SIGABRT", "compiler died"),
        (faults.BUILDER_HANGS, "timeout", "build", "2 s"),
    ],
)
def test_a_fault_is_a_failure_and_the_next_candidate_is_measured(
    runner, fault, stage, kind, message
):
    first, failed, last = measure(runner, faults.RIGHT, fault, faults.RIGHT)
    assert isinstance(failed, Failure)
    assert (failed.stage, failed.kind) == (stage, kind), failed
    assert message in failed.message
    assert_fine(first)
    assert_fine(last)


def test_a_kernel_that_spoils_the_inputs_does_not_condemn_the_next_one(runner):
    spoiler, innocent = measure(runner, faults.SCRIBBLE, faults.RIGHT)
    assert isinstance(spoiler, Timing | Failure)
    assert_fine(innocent)


@pytest.mark.parametrize("first", [faults.RIGHT, faults.SCRIBBLE])
def test_the_first_kernel_sets_the_pace_and_condemns_no_other(first):
    """Even one that spoils the inputs of those that it runs beside."""
    with LocalRunner(TARGET, OPTIONS, faults.build) as runner:
        _, second, crash, wrong, last = measure(
            runner, first, faults.RIGHT, faults.SEGFAULT, faults.UNWRITTEN, faults.RIGHT
        )
        assert_fine(second)
        assert_fine(last)
        assert crash.kind == "SIGSEGV" and wrong.kind == WRONG_RESULT
        if first == faults.RIGHT:
            assert second.pace > 0 and last.pace > 0, "a new process has the pacer, too"


def test_a_pacer_can_be_left_out():
    options = replace(OPTIONS, paced=False, bursts=1)
    with LocalRunner(TARGET, options, faults.build) as runner:
        assert [result.pace for result in measure(runner, *[faults.RIGHT] * 3)] == [None] * 3


def test_batches_are_compiled_ahead_and_collected_in_any_order(runner):
    first = runner.submit(TASK, [candidate(faults.RIGHT)] * 2)
    second = runner.submit(TASK, [candidate(faults.NO_NEST), candidate(faults.RIGHT)])
    failed, fine = runner.collect(second)
    assert isinstance(failed, Failure)
    assert_fine(fine)
    assert [type(result) for result in runner.collect(first)] == [Timing, Timing]
    with pytest.raises(MeasureError, match="is not waiting"):
        runner.collect(first)


def test_remeasuring_gives_a_sample_a_round_and_survives_crashes(runner):
    chosen = (faults.RIGHT, faults.SEGFAULT, faults.NO_IR, faults.WRONG, faults.RIGHT)
    results = runner.remeasure(TASK, [candidate(fault) for fault in chosen], rounds=3)
    assert [getattr(r, "kind", None) for r in results] == [
        None, "SIGSEGV", "RuntimeError", WRONG_RESULT, None,
    ]  # fmt: skip
    for result in (results[0], results[-1]):
        assert_fine(result)
        assert len(result.seconds) == 3


def test_verifying_gives_the_error_whatever_it_is(runner):
    assert runner.verify(TASK, candidate(faults.RIGHT)) < 1e-6
    assert 0.1 < runner.verify(TASK, candidate(faults.WRONG)) < math.inf
    assert runner.verify(TASK, candidate(faults.UNWRITTEN)) == math.inf
    assert runner.verify(TASK, candidate(faults.SEGFAULT)).kind == "SIGSEGV"
    assert runner.verify(TASK, candidate(faults.NO_NEST)).stage == "lower"


def test_a_failing_candidate_is_dropped_after_one_run(runner):
    (result,) = runner.measure(TASK, [candidate(faults.RIGHT)], best_s=1e-15)
    assert len(result.seconds) == 1


def test_a_lost_zygote_is_replaced():
    with LocalRunner(TARGET, OPTIONS, faults.build) as runner:
        assert_fine(measure(runner, faults.RIGHT)[0])
        os.kill(runner._zygote._process.pid, signal.SIGKILL)
        results = measure(runner, *[faults.RIGHT] * 4)
        assert isinstance(results[-1], Timing)
        assert_fine(measure(runner, faults.RIGHT)[0])


def test_the_timing_process_is_recycled():
    options = MeasureOptions(check="none", builders=1, recycle_after=2, samples=1, bursts=1)
    with LocalRunner(TARGET, options, faults.build) as runner:
        pids = []
        for _ in range(4):
            assert isinstance(measure(runner, faults.RIGHT)[0], Timing)
            pids.append(runner._timer._child._pid)
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_closing_ends_every_process_and_is_final():
    runner = LocalRunner(TARGET, OPTIONS, faults.build)
    assert_fine(measure(runner, faults.RIGHT)[0])
    zygote = runner._zygote._process.pid
    children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    assert children
    runner.submit(TASK, [candidate(faults.BUILDER_HANGS)])
    runner.close()
    runner.close()
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in (zygote, *children))
    with pytest.raises(MeasureError, match="closed"):
        measure(runner, faults.RIGHT)


def test_a_function_that_no_other_process_finds_is_refused():
    with pytest.raises(MeasureError, match="define it at the top of a module"):
        LocalRunner(TARGET, OPTIONS, lambda sketch, values: None)


def test_a_gpu_target_is_refused():
    with pytest.raises(TargetError, match="cannot time candidates for the cuda target sm_90"):
        LocalRunner(Target("cuda", "sm_90"))


def test_a_tuner_that_has_run_openmp_measures_on_after_a_crash():
    """LightGBM's training starts OpenMP threads: a child forked from here would hang."""
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    data = lightgbm.Dataset(rng.random((500, 4)), rng.random(500))
    lightgbm.train({"num_threads": 2, "verbose": -1}, data, num_boost_round=3)
    target = host_target(threads=2)
    sketch = Sketch(TASK.dag, (), target)
    chosen = (faults.TWO_THREADS, faults.SEGFAULT, faults.TWO_THREADS)
    with LocalRunner(target, OPTIONS, faults.build) as runner:
        first, crashed, last = runner.measure(TASK, [candidate(f, sketch) for f in chosen])
    assert_fine(first)
    assert isinstance(crashed, Failure)
    assert crashed.kind == "SIGSEGV"
    assert_fine(last)
