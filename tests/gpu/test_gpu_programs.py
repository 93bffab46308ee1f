"""Programs on a device: results, times, memory, and code that is another device's."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.cuda.build import build
from codegen.gpu.device_kernel import DeviceKernel
from codegen.gpu.errors import DeviceError, DeviceMemoryError
from codegen.gpu.missing import missing_gpu
from codegen.gpu.open import open_device
from sketch.errors import TargetError
from sketch.lower import lower
from sketch.oracle.interpret import interpret
from sketch.population.population import Population
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target, emulated
from sketch.target.target import Target
from tests.support.cuda_programs import feasible_rows
from tests.support.workloads import WORKLOADS, matmul_dag, random_inputs


def some_rows(name: str, target: Target, rng: np.random.Generator) -> list[Population]:
    return [feasible_rows(sketch, 2, rng) for sketch in generate(WORKLOADS[name](), target)]


def check_rows(name: str, target: Target, rng: np.random.Generator) -> None:
    dag = WORKLOADS[name]()
    inputs = random_inputs(dag, rng)
    expected = interpret(dag, inputs)
    with open_device(target) as device:
        for population in some_rows(name, target, rng):
            for index in range(population.count):
                made = build(lower(population.sketch, population.row(index)), target)
                with DeviceKernel(device, made, inputs) as kernel:
                    found = kernel.run()
                for key, value in found.items():
                    wanted = expected[key].reshape(value.shape)
                    assert np.abs(value - wanted).max() <= 1e-5 * max(np.abs(wanted).max(), 1.0)


@pytest.mark.skipif(missing_gpu() is None, reason="there is a GPU")
def test_without_a_gpu_the_error_says_why() -> None:
    with pytest.raises(TargetError, match=r"CUDA driver .*use a machine with an NVIDIA GPU"):
        open_device(cuda_target())


def test_a_kernel_equals_the_oracle(target: Target, rng: np.random.Generator) -> None:
    check_rows("chain", target, rng)


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_programs_equal_the_oracle(name: str, gpu: Target, rng: np.random.Generator) -> None:
    check_rows(name, gpu, rng)


def test_times_are_those_of_all_runs(target: Target, rng: np.random.Generator) -> None:
    dag = matmul_dag(32, 32, 32)
    (sketch, *_) = generate(dag, target)
    made = build(lower(sketch, feasible_rows(sketch, 1, rng).row(0)), target)
    with (
        open_device(target) as device,
        DeviceKernel(device, made, random_inputs(dag, rng), expected_s=1e-5) as kernel,
    ):
        kernel.seconds(20)
        one, many = (min(kernel.seconds(runs) for _ in range(5)) for runs in (10, 100))
    assert 0 < one < many < 1


def test_what_does_not_fit_the_memory_is_refused_and_all_goes_on(target: Target) -> None:
    with open_device(target) as device:
        memory = device.memory()
        assert 0 < memory.free <= memory.total
        with pytest.raises(DeviceMemoryError):
            device.allocate(memory.total + 1)
        device.free(device.allocate(1000))
        assert not device.lost


def test_code_for_another_architecture_is_refused(target: Target, rng: np.random.Generator) -> None:
    arch = "sm_80" if target.arch != "sm_80" else "sm_90"
    other = emulated(cuda_target(arch)) if target.card.emulated else cuda_target(arch)
    population = some_rows("chain", other, rng)[0]
    kernel = build(lower(population.sketch, population.row(0)), other)
    with open_device(target) as device, pytest.raises(DeviceError):
        DeviceKernel(device, kernel, random_inputs(WORKLOADS["chain"](), rng))
