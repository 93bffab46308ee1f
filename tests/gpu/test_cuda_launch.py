"""Kernels on a real GPU: results, and timing next to the vendor's library."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.cuda.build import build
from codegen.cuda.launch import DeviceKernel, host_arch, missing_gpu
from codegen.cuda.nvrtc import missing_compiler
from sketch.errors import TargetError
from sketch.lower import lower
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from tests.support.cuda_programs import feasible_nests, feasible_rows
from tests.support.workloads import WORKLOADS, matmul_dag, random_inputs

MISSING = missing_gpu() or missing_compiler()
needs_gpu = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.mark.skipif(missing_gpu() is None, reason="there is a GPU")
def test_without_a_gpu_the_error_says_why() -> None:
    with pytest.raises(TargetError, match=r"CUDA driver .*use a machine with an NVIDIA GPU"):
        host_arch()


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_kernels_equal_the_oracle(name: str, rng: np.random.Generator) -> None:
    dag = WORKLOADS[name]()
    inputs = random_inputs(dag, rng)
    expected = interpret(dag, inputs)
    for nest in feasible_nests(dag, 2, rng):
        with DeviceKernel(build(nest, cuda_target(host_arch())), inputs) as kernel:
            for key, value in kernel.run().items():
                wanted = expected[key].reshape(value.shape)
                assert np.abs(value - wanted).max() <= 1e-5 * max(np.abs(wanted).max(), 1.0)


@needs_gpu
@pytest.mark.gpu
def test_timing_gives_positive_seconds(rng: np.random.Generator) -> None:
    dag = matmul_dag(512, 512, 512)
    target = cuda_target(host_arch())
    (sketch,) = generate(dag, target)
    population = feasible_rows(sketch, 1, rng)
    with DeviceKernel(
        build(lower(sketch, population.row(0)), target), random_inputs(dag, rng)
    ) as kernel:
        seconds = kernel.time(repeats=3, runs=5)
    assert len(seconds) == 3 and all(0 < s < 1 for s in seconds)


@needs_gpu
@pytest.mark.gpu
def test_code_for_another_architecture_is_refused(rng: np.random.Generator) -> None:
    other = "sm_80" if host_arch() != "sm_80" else "sm_90"
    dag = WORKLOADS["chain"]()
    kernel = build(next(feasible_nests(dag, 1, rng)), cuda_target(other))
    with pytest.raises(TargetError, match=f"the code is for {other}"):
        DeviceKernel(kernel, random_inputs(dag, rng))
