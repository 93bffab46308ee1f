"""Kernels on a real GPU: results, and timing next to the vendor's library."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.cuda.build import build
from codegen.gpu.device_kernel import DeviceKernel
from codegen.gpu.errors import DeviceError
from codegen.gpu.host import gpu_here
from codegen.gpu.missing import missing_device, missing_gpu
from codegen.gpu.open import open_device
from sketch.errors import TargetError
from sketch.lower import lower
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from tests.support.cuda_programs import feasible_nests, feasible_rows
from tests.support.workloads import WORKLOADS, matmul_dag, random_inputs

MISSING = missing_gpu() or missing_device(gpu_here())
needs_gpu = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.mark.skipif(missing_gpu() is None, reason="there is a GPU")
def test_without_a_gpu_the_error_says_why() -> None:
    with pytest.raises(TargetError, match=r"CUDA driver .*use a machine with an NVIDIA GPU"):
        open_device(cuda_target())


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_kernels_equal_the_oracle(name: str, rng: np.random.Generator) -> None:
    dag = WORKLOADS[name]()
    inputs = random_inputs(dag, rng)
    expected = interpret(dag, inputs)
    target = gpu_here()
    for nest in feasible_nests(dag, 2, rng):
        with (
            open_device(target) as device,
            DeviceKernel(device, build(nest, target), inputs) as kernel,
        ):
            for key, value in kernel.run().items():
                wanted = expected[key].reshape(value.shape)
                assert np.abs(value - wanted).max() <= 1e-5 * max(np.abs(wanted).max(), 1.0)


@needs_gpu
@pytest.mark.gpu
def test_timing_gives_positive_seconds(rng: np.random.Generator) -> None:
    dag = matmul_dag(512, 512, 512)
    target = gpu_here()
    (sketch,) = generate(dag, target)
    population = feasible_rows(sketch, 1, rng)
    made = build(lower(sketch, population.row(0)), target)
    with (
        open_device(target) as device,
        DeviceKernel(device, made, random_inputs(dag, rng)) as kernel,
    ):
        seconds = [kernel.seconds(5) / 5 for _ in range(3)]
    assert len(seconds) == 3 and all(0 < s < 1 for s in seconds)


@needs_gpu
@pytest.mark.gpu
def test_code_for_another_architecture_is_refused(rng: np.random.Generator) -> None:
    other = "sm_80" if gpu_here().arch != "sm_80" else "sm_90"
    with pytest.raises(DeviceError, match=f"the target is {other}"):
        open_device(cuda_target(other))
