"""Shared memory that a launch asks for: parts with bounds of their own, and the same results."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import build, emit
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import missing_compiler
from codegen.gpu.emulated import EmulatedDevice
from codegen.gpu.emulation.checked import compile_checked
from codegen.gpu.emulation.library import EmulationError, compiler
from codegen.gpu.errors import DeviceLaunchError
from sketch.lower import lower
from sketch.oracle.interpret import interpret
from sketch.population.feasible import feasible
from sketch.population.feasible_gpu import shared_bytes_of
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target, emulated
from tests.support.cuda_mutants import mutants_of
from tests.support.cuda_programs import MATMUL, MATMUL_ROW, matmul_nest, row_of
from tests.support.emulate import compile_programs
from tests.support.ptx.run import ptx_of, run_ptx
from tests.support.workloads import matmul_dag, random_inputs

H200 = cuda_target("h200")
# What is declared by its size must fit so few bytes that small tiles are asked for.
LITTLE = replace(H200, shared_memory_bytes=64)
LARGE = row_of({
    "C.i@1": 1, "C.i@2": 4, "C.i@3": 4, "C.i@4": 8, "C.j@1": 1, "C.j@2": 2, "C.j@3": 8, "C.j@4": 8,
    "C.local.k@1": 4, "C.local.k@2": 8, "C.local.k@tiles": 3,
    "A.cache.d1@layout": 1, "B.cache.d1@layout": 0,
})  # fmt: skip
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
needs_nvrtc = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))


def small(tiles: int) -> CudaSource:
    """A tile of A and one of B, some of each."""
    row = {**MATMUL_ROW, **row_of({"C.local.k@tiles": tiles})}
    return emit(matmul_nest(MATMUL, row), LITTLE)


def test_only_what_is_too_large_to_be_declared_is_asked_for() -> None:
    sketch, *_ = generate(matmul_dag(1024, 1024, 1024), H200)
    nest = lower(sketch, LARGE)
    (launch,) = emit(nest, H200).launches
    assert launch.shared_bytes == shared_bytes_of(nest.roots[0]) == 3 * (128 * 36 + 32 * 128) * 4
    assert feasible(sketch, LARGE)[0]
    assert not feasible(replace(sketch, target=cuda_target("t4")), LARGE)[0]
    text = emit(matmul_nest(), H200).text
    assert "dynamic_shared" not in text and "__shared__ __align__(16) float A_cache[" in text


@pytest.mark.parametrize("tiles", [1, 3])
def test_parts_are_one_after_another_at_multiples_of_16_bytes(tiles: int) -> None:
    (launch,), text = small(tiles).launches, small(tiles).text
    parts = re.findall(r"\(&\w+\)\[(\d+)\] = .*dynamic_shared \+ (\d+)\)", text)
    place = 0
    for elements, start in parts:
        assert int(start) == place and place % 16 == 0
        place += int(elements) * 4
    assert len(parts) == 2 and place == launch.shared_bytes


@needs_compiler
def test_results_and_faults_of_parts(tmp_path: Path) -> None:
    inputs = random_inputs(matmul_dag(*MATMUL), np.random.default_rng(0))
    expected = interpret(matmul_dag(*MATMUL), inputs)["C"]
    source = small(3)
    (program,) = compile_programs([source], tmp_path)
    np.testing.assert_allclose(program.run(inputs)["C"], expected, rtol=1e-5, atol=1e-5)
    mutants = [m for m in mutants_of(source) if "shared" in m.fault]
    assert len(mutants) == 3
    right, *wrong = compile_checked([source, *(m.source for m in mutants)], tmp_path)
    np.testing.assert_allclose(right.run(inputs)["C"], expected, rtol=1e-5, atol=1e-5)
    for mutant in wrong:
        with pytest.raises(EmulationError, match=r"_cache\[\d+\], which has \d+ elements"):
            mutant.run(inputs)


@needs_nvrtc
def test_what_the_compiler_makes_of_parts() -> None:
    inputs = random_inputs(matmul_dag(*MATMUL), np.random.default_rng(0))
    expected = interpret(matmul_dag(*MATMUL), inputs)["C"]
    source = small(2)
    found = run_ptx(source, ptx_of(source.text), inputs)["C"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    sketch, *_ = generate(matmul_dag(1024, 1024, 1024), H200)
    kernel = build(lower(sketch, LARGE), H200)
    ((_, used),) = kernel.resources
    assert used.shared_bytes == 0 and not used.spills


@needs_compiler
def test_an_emulated_device_has_as_much_as_the_card() -> None:
    target = emulated(LITTLE)
    kernel = build(matmul_nest(), target)
    launch = replace(kernel.source.launches[0], shared_bytes=228 << 10)
    with EmulatedDevice(target) as device, pytest.raises(DeviceLaunchError, match="233472 bytes"):
        device.load(replace(kernel, source=replace(kernel.source, launches=(launch,))), 0.0)
