"""A kernel that nobody measured is compared with the oracle when it is compiled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import autosched as asd
from autosched.compilation import check, unmeasured
from autosched.compilation import network as network_compilation
from autosched.compilation import task as task_compilation
from autosched.compilation.ahead import ExpectedAhead
from autosched.compilation.check import WrongResultError, check_kernel, device_of, kernel_errors
from autosched.compilation.network import network_tasks
from autosched.graph.extract import extract
from autosched.measure.result import Timing
from autosched.records.record import record_of
from autosched.search.space import space_of
from autosched.system.user_warnings import AutoschedWarning
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.zoo import build as build_network
from codegen.backend import build_kernel
from codegen.build import build
from codegen.gpu.emulation.library import compiler
from codegen.gpu.errors import DeviceLaunchError
from codegen.host import cpu_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower


def product(sign: float = 1.0, rows: int = 24, columns: int = 40) -> ComputeDAG:
    a, b = placeholder((rows, 16), name="A"), placeholder((16, columns), name="B", constant=True)
    k, shape = reduce_axis(16, "k"), (rows, columns)
    total = compute(shape, lambda i, j: reducers.sum(a[i, k] * b[k, j], axis=k), name="S")
    return ComputeDAG([compute(shape, lambda i, j: total[i, j] * sign, name="C")])


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.slow), 2])
def target(request):
    return cpu_target(threads=request.param)


def test_a_right_kernel_passes(target):
    task = Task(product(), target)
    best = task.draft_candidate()
    check_kernel(task, best, build(lower(best.sketch, dict(best.values)), target))


def test_a_wrong_kernel_is_named_with_its_task_and_schedule(target):
    task, other = Task(product(), target, name="gemm"), Task(product(-1.0), target)
    best = other.draft_candidate()
    wrong = build(lower(best.sketch, dict(best.values)), target)
    with pytest.raises(WrongResultError) as error:
        check_kernel(task, best, wrong)
    assert "gemm" in str(error.value) and task.key in str(error.value)
    assert best.sketch.key in str(error.value) and str(dict(best.values)) in str(error.value)


def test_errors_are_those_of_right_kernels(target):
    task, best = Task(product(), target), Task(product(-1.0), target).draft_candidate()
    nest = lower(best.sketch, dict(best.values))
    with pytest.raises(WrongResultError, match="relative error 2"):
        kernel_errors(task, best, build(nest, target))
    right = task.draft_candidate()
    errors = kernel_errors(task, right, build(lower(right.sketch, dict(right.values)), target))
    assert len(errors) == 2 and 0 < max(errors) < 1e-6


def test_results_that_are_never_written_are_seen(target):
    task, half = Task(product(), target), Task(product(rows=20), target)
    best, fewer = task.draft_candidate(), half.draft_candidate()
    whole = build(lower(best.sketch, dict(best.values)), target)
    kernel = build(lower(fewer.sketch, dict(fewer.values)), target)
    with pytest.raises(WrongResultError, match="relative error inf"):
        check_kernel(task, best, replace(kernel, arguments=whole.arguments))


FAULTS = {
    "the last element": np.s_[-1, -1],
    "a row of the tail": np.s_[32, :],
    "the last row before it": np.s_[31, :],
    "a column of the tail": np.s_[:, 40],
    "the last column": np.s_[:, -1],
    "a guard off by one at the front": np.s_[0, :],
    "an element that is always looked at": np.s_[0, -1],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_at_an_edge_is_found(fault, monkeypatch):
    target = cpu_target(threads=1)
    task = Task(product(rows=37, columns=45), target)
    best = task.draft_candidate()
    run = check._run

    def run_badly(loaded, threads):
        run(loaded, threads)
        output = loaded.arrays[-2].reshape(37, 45)
        output[FAULTS[fault]] += 0.5

    kernel = build(lower(best.sketch, dict(best.values)), target)
    check_kernel(task, best, kernel)
    monkeypatch.setattr(check, "_run", run_badly)
    with pytest.raises(WrongResultError, match="relative error"):
        check_kernel(task, best, kernel)


def test_large_inputs_are_drawn_in_part(target):
    a = placeholder((300, 1000), name="A")
    b = placeholder((1000, 70), name="B", constant=True)
    k = reduce_axis(1000, "k")
    task = Task(
        ComputeDAG(
            [compute((300, 70), lambda i, j: reducers.sum(a[i, k] * b[k, j], axis=k), name="C")]
        ),
        target,
    )
    inputs = check.expected(task).inputs
    flat = np.abs(inputs["A"].reshape(-1))
    assert len(np.unique(flat)) <= 2 * check._DISTINCT  # those of the half that is scaled, too
    assert inputs["A"].ctypes.data % 64 == 0
    assert not np.array_equal(flat[:1000], flat[1000:2000])
    best = task.draft_candidate()
    check_kernel(task, best, build(lower(best.sketch, dict(best.values)), target))


@pytest.mark.parametrize("argument", ["A", "C"])
def test_a_kernel_inside_a_wider_array(target, argument):
    task = Task(product(), target)
    best = task.draft_candidate()
    strides = {argument: (100, 1)}
    kernel = build_kernel(lower(best.sketch, dict(best.values)), target, strides=strides)
    check_kernel(task, best, kernel, strides)


def test_code_for_another_machine_is_not_run(monkeypatch):
    target = asd.Target("cpu-neon", threads=1)
    task = Task(product(), target)
    best = task.draft_candidate()
    monkeypatch.setattr(check, "bind", None)
    check_kernel(task, best, build(lower(best.sketch, dict(best.values)), target))


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_kernels_for_a_gpu_are_checked_on_the_device_there_is():
    target = asd.Target("cuda:h200", device="emulated")
    task, other = Task(product(), target, name="gemm"), Task(product(-1.0), target)
    best = task.draft_candidate()
    right, wrong = (
        build_kernel(lower(each.sketch, dict(each.values)), target)
        for each in (best, other.draft_candidate())
    )
    with device_of(target) as device:
        check_kernel(task, best, right, device=device)
        with pytest.raises(WrongResultError, match="gemm"):
            check_kernel(task, best, wrong, device=device)


def test_a_gpu_of_another_architecture_checks_nothing(monkeypatch):
    def refuse(target):
        raise DeviceLaunchError(f"the target is {target.arch}, the GPU of this machine is sm_80")

    monkeypatch.setattr(check, "runs_here", lambda _: True)
    monkeypatch.setattr("codegen.gpu.open.open_device", refuse)
    target = asd.Target("cuda:h200")
    with device_of(target) as device:
        assert device is None
        task = Task(product(), target)
        check_kernel(task, task.draft_candidate(), None, device=device)


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_networks_for_a_gpu_are_checked(monkeypatch):
    checked = []
    monkeypatch.setattr(
        "autosched.compilation.unmeasured.check_kernel", lambda *args: checked.append(args[-1])
    )
    network = build_network("mlp")
    asd.compile(network, asd.Target("cuda:h200", device="emulated"))
    assert checked and all(device.kind == "emulated" for device in checked)


def test_a_task_module_without_a_record_is_checked(monkeypatch, target):
    task, best = Task(product(), target), Task(product(-1.0), target).draft_candidate()
    weights = {"B": np.ones((16, 40), "float32")}
    monkeypatch.setattr(task_compilation, "kernel_of", lambda _, target: build(best.nest(), target))
    with pytest.raises(WrongResultError):
        task.module(weights)
    found = task.module(weights, check=False).run({"A": np.ones((24, 16), "float32")})
    assert found["C"][0, 0] == -16


def test_a_network_without_a_log_is_checked(monkeypatch):
    checked = []
    monkeypatch.setattr(
        "autosched.compilation.unmeasured.check_kernel", lambda task, *_: checked.append(task.key)
    )
    network = build_network("mlp")
    module = asd.compile(network, threads=1)
    assert set(checked) == {step.info.task for step in module.program.kernel_steps}
    checked.clear()
    asd.compile(network, threads=1, check=False)
    assert checked == []


def test_what_is_expected_is_computed_ahead_once(target):
    task = Task(product(), target)
    best = task.draft_candidate()
    kernel = build(lower(best.sketch, dict(best.values)), target)
    with ExpectedAhead([task, task]) as ahead:
        memory = ahead.take(task)
        assert memory is not None and ahead.take(task) is memory
    check_kernel(task, best, kernel, memory=memory)
    other = Task(product(-1.0), target).draft_candidate()
    wrong = build(lower(other.sketch, dict(other.values)), target)
    with pytest.raises(WrongResultError):
        check_kernel(task, other, wrong, memory=memory)


def test_what_errors_were_measured_on_checks_the_next_kernel_of_the_task(target):
    task, other = Task(product(), target), Task(product(-1.0), target)
    (best, kernel), (wrong, inverse) = (
        (c, build(lower(c.sketch, dict(c.values)), target))
        for c in (task.draft_candidate(), other.draft_candidate())
    )
    with ExpectedAhead([]) as ahead:
        errors = kernel_errors(task, best, kernel, memories=ahead.of_means(task))
        assert errors == kernel_errors(task, best, kernel)
        memory = ahead.take(task)
        assert memory is not None and memory.reference.outputs["C"].bounds is not None
        check_kernel(task, best, kernel, memory=memory)
        with pytest.raises(WrongResultError):
            check_kernel(task, wrong, inverse, memory=memory)


def test_what_is_expected_is_kept_up_to_a_limit(target, monkeypatch):
    tasks = [Task(product(rows=rows), target) for rows in (24, 48)]
    monkeypatch.setattr("autosched.compilation.ahead._KEPT_BYTES", 8000)
    with ExpectedAhead(tasks) as ahead:
        first, second = (ahead.take(task) for task in tasks)
        assert first.nbytes + second.nbytes > 8000 > second.nbytes
        assert ahead.take(tasks[1]) is second
        again = ahead.take(tasks[0])
    assert again is not first
    assert all(np.array_equal(again.inputs[name], first.inputs[name]) for name in "AB")


def test_records_that_nobody_checked_are_checked_and_left_out_where_they_are_wrong(monkeypatch):
    network, target = build_network("mlp", image=4), cpu_target(threads=1)
    task = network_tasks(extract(network), target)[0]
    sketch, rows = space_of(task).sketches[0], space_of(task).samples[0]
    # not the one that is compiled where there is no record
    checked, wrong, right = (Candidate(sketch, rows.row(rows.count - n)) for n in range(1, 4))
    looked_at = []

    def checking(spec, candidate, *_):
        if spec.key == task.key:
            looked_at.append(dict(candidate.values))
        if candidate.values == wrong.values:
            raise WrongResultError("wrong")

    monkeypatch.setattr(unmeasured, "check_kernel", checking)

    def used(**seconds):
        """Where the schedule of the task comes from; ``seconds``: of the candidates."""
        looked_at.clear()
        named = {"checked": (checked, 1e-7), "wrong": (wrong, None), "right": (right, None)}
        records = [
            record_of(task.key, candidate, target, Timing((seconds[name],), error=error))
            for name, (candidate, error) in named.items()
            if name in seconds
        ]
        program = network_compilation.network_contents(network, target, records, quick=True)[0]
        return program.steps[0].info.schedule

    assert used(checked=1e-3) == "record" and looked_at == []
    assert used(right=1e-3) == "record" and looked_at == [dict(right.values)]
    with pytest.warns(AutoschedWarning, match="cannot be built: wrong"):
        assert used(wrong=1e-4, checked=1e-3) == "record"
    assert looked_at == [dict(wrong.values)]
    with pytest.warns(AutoschedWarning, match="cannot be built: wrong"):
        assert used(wrong=1e-4) == "model"
