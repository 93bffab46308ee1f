"""In the caches of a network a kernel is among others, whose values push out what is older."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import autosched
from autosched.measure.cpu_worker import CpuBench
from autosched.measure.execution import LoadedKernel
from autosched.measure.inputs import random_inputs
from autosched.measure.messages import TimingSetup
from autosched.measure.options import MeasureOptions
from autosched.measure.pinning import allowed_cpus
from autosched.measure.result import CACHE_STATES, CacheState, Failure, of_network
from autosched.measure.task_memory import TaskMemory
from codegen.build import build
from codegen.host import host_target
from codegen.kernel import Kernel
from sketch.dag.dag import ComputeDAG
from sketch.lang.functions import maximum
from sketch.lang.tensor import compute, placeholder
from sketch.lower import lower
from sketch.target.target import Target

ROWS = 96
A, B = (placeholder((ROWS, ROWS), name=name) for name in "AB")
C = placeholder((ROWS, ROWS), name="C", constant=True)
DAG = ComputeDAG(
    [compute((ROWS, ROWS), lambda i, j: maximum(A[i, j] * C[i, j] + B[i, j], 0.0), name="y")]
)
VALUE = ROWS * ROWS * 4
NO_REFERENCE = Failure("check", "none", "none")


def spans(loaded: LoadedKernel) -> list[tuple[int, int]]:
    numbers = list(loaded.passed_on)
    assert numbers[-2:] == [0, 0]
    return list(zip(numbers[:-2:2], numbers[1:-2:2], strict=True))


def loaded_for(state: CacheState, target: Target, memory: TaskMemory) -> LoadedKernel:
    candidate = autosched.Task({"direct": DAG}, target).candidate()
    kernel = build(lower(candidate.sketch, candidate.values), target)
    assert isinstance(kernel, Kernel)
    bench = CpuBench(TimingSetup(target, MeasureOptions(cache_state=state)), allowed_cpus()[:1] * 2)
    return bench.load(kernel, memory, candidate.sketch, candidate.values)


def own_spans(loaded: LoadedKernel, memory: TaskMemory) -> list[tuple[int, int]]:
    (output,) = memory.outputs.values()
    arrays = [output, memory.inputs["B"], memory.inputs["A"]]
    return [(array.ctypes.data, array.nbytes) for array in arrays]


@pytest.mark.parametrize("state", CACHE_STATES)
def test_outputs_are_older_than_the_values_of_others_and_these_than_inputs(
    state: CacheState,
) -> None:
    memory = TaskMemory(DAG, random_inputs(DAG, 0), NO_REFERENCE)
    loaded = loaded_for(state, host_target(2), memory)
    output, *others, second, first = spans(loaded)
    assert [output, second, first] == own_spans(loaded, memory)
    assert [size for _, size in others] == [3 * VALUE] * of_network(state)


def test_the_values_of_others_are_no_more_than_caches_hold() -> None:
    target = replace(host_target(2), l1_bytes=4096, l2_bytes=VALUE)
    memory = TaskMemory(DAG, random_inputs(DAG, 0), NO_REFERENCE)
    others = spans(loaded_for("network", target, memory))[1]
    assert others[1] == 2 * VALUE


def test_all_kernels_of_a_task_are_among_the_same_values() -> None:
    memory = TaskMemory(DAG, random_inputs(DAG, 0), NO_REFERENCE)
    large = memory.others(1000)
    assert np.shares_memory(memory.others(10), large) and memory.others(10).nbytes == 10
    before = memory.nbytes
    assert memory.others(3000).nbytes == 3000
    assert memory.nbytes == before + 2000
