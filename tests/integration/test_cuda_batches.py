"""Several products of a batch in a block: each has warps of its own, and all equal the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import compile_source, missing_compiler
from codegen.gpu.emulation.checked import compile_checked
from codegen.gpu.emulation.library import compiler
from costmodel.extract import draft_seconds
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from tests.integration.test_ptx_interpreter import error_of, noticed
from tests.support.cuda_mutants import mutants_of
from tests.support.cuda_programs import feasible_rows, row_of
from tests.support.emulate import compile_programs
from tests.support.errors import relative_error
from tests.support.ptx.run import ptx_of
from tests.support.workloads import batch_matmul_dag, random_inputs

H200 = cuda_target("h200")
BATCH = "batch_matmul.b@1"
_ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100")
_TOLERANCE = 2e-6
# Three of five products in a block, whose tiles end beyond theirs: tails along all axes.
ROW = {
    BATCH: 3,
    "batch_matmul.i@1": 2, "batch_matmul.i@2": 1, "batch_matmul.i@3": 4, "batch_matmul.i@4": 2,
    "batch_matmul.j@1": 1, "batch_matmul.j@2": 1, "batch_matmul.j@3": 8, "batch_matmul.j@4": 2,
    "batch_matmul.local.k@1": 2, "batch_matmul.local.k@2": 2, "batch_matmul.local.k@tiles": 2,
    "A.cache.d2@layout": 0, "B.cache.d2@layout": 0,
}  # fmt: skip

needs_nvrtc = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def dag() -> ComputeDAG:
    return batch_matmul_dag(5, 33, 34, 6)


@pytest.fixture(scope="module")
def source(dag: ComputeDAG) -> CudaSource:
    (sketch,) = generate(dag, H200)
    made = emit(lower(sketch, row_of(ROW, sketch)), H200)
    assert [launch.block for launch in made.launches] == [3 * 32]
    return made


@pytest.fixture(scope="module")
def inputs(dag: ComputeDAG) -> Mapping[str, np.ndarray]:
    return random_inputs(dag, np.random.default_rng(0))


@needs_compiler
def test_products_of_a_block_equal_the_oracle(
    dag: ComputeDAG, source: CudaSource, inputs: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    (program,) = compile_programs([source], tmp_path)
    for reverse in (False, True):
        found = program.run(inputs, reverse=reverse)["batch_matmul"]
        assert relative_error(found, interpret(dag, inputs)["batch_matmul"]) < 1e-5


@needs_compiler
@pytest.mark.slow
def test_every_access_of_theirs_is_allowed(
    dag: ComputeDAG, source: CudaSource, inputs: Mapping[str, np.ndarray], tmp_path: Path
) -> None:
    (program,) = compile_checked([source], tmp_path, "-O1")
    for reverse in (False, True):
        found = program.run(inputs, reverse=reverse)["batch_matmul"]
        assert relative_error(found, interpret(dag, inputs)["batch_matmul"]) < 1e-5


@needs_nvrtc
def test_what_the_compiler_makes_of_them_equals_the_oracle(
    dag: ComputeDAG, source: CudaSource, inputs: dict[str, np.ndarray]
) -> None:
    assert error_of(source, ptx_of(source.text), dag, inputs) <= _TOLERANCE


@needs_nvrtc
@pytest.mark.slow
def test_faults_are_noticed(
    dag: ComputeDAG, source: CudaSource, inputs: dict[str, np.ndarray]
) -> None:
    found = [m for m in mutants_of(source) if m.kind != "local array halved"]
    assert len(found) > 5
    assert [m.fault for m in found if not noticed(m, dag, inputs)] == []


@needs_nvrtc
@pytest.mark.parametrize("arch", _ARCHS)
def test_architectures_have_code_for_them(arch: str) -> None:
    target = cuda_target(arch)
    (sketch,) = generate(batch_matmul_dag(768, 32, 32, 32), target)
    row = {decision: ROW.get(label, 1) for decision, label in sketch.labels.items()}
    assert compile_source(emit(lower(sketch, row), target), arch)[0]


def test_the_draft_takes_several_small_products_into_a_block() -> None:
    (sketch,) = generate(batch_matmul_dag(768, 32, 32, 32), H200)
    rows = feasible_rows(sketch, 512, np.random.default_rng(0))
    name = sketch.decision(BATCH)
    best = rows.row(int(np.argmin(draft_seconds(rows))))
    assert best[name] > 1
    assert 0.1 < (rows.columns()[name] > 1).mean() < 0.9


def test_axes_of_one_product_have_no_level_of_their_own() -> None:
    (sketch,) = generate(batch_matmul_dag(1, 64, 64, 32), H200)
    assert BATCH not in set(sketch.labels.values())
