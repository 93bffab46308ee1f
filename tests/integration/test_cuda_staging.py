"""Without asynchronous copies the next tile waits in registers while one is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import compile_source, missing_compiler
from codegen.gpu.emulation.checked import compile_checked
from codegen.gpu.emulation.library import compiler
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.oracle.interpret import interpret
from sketch.population.feasible_gpu import registers_of
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from tests.integration.test_ptx_interpreter import error_of, noticed
from tests.support.cuda_mutants import mutants_of
from tests.support.cuda_programs import GPU, MATMUL, MATMUL_ROW, matmul_nest, row_of
from tests.support.emulate import compile_programs
from tests.support.errors import relative_error
from tests.support.pipelines import pipelined_nests
from tests.support.ptx.memory import MemoryFault
from tests.support.ptx.run import ptx_of, run_ptx
from tests.support.workloads import batch_matmul_dag, conv2d_relu, matmul_dag, random_inputs

T4 = cuda_target("sm_75")
_TOLERANCE = 2e-6
_ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100")
CASES: Mapping[str, Callable[[], ComputeDAG]] = {
    "matmul of whole tiles": lambda: matmul_dag(32, 48, 64),
    "matmul with tails": lambda: matmul_dag(17, 19, 23),
    "batch_matmul": lambda: batch_matmul_dag(3, 7, 12, 15),
    "conv2d": lambda: conv2d_relu(11, 9, 7, 3, 2, 1),
}
needs_nvrtc = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")


def sources_of(dag: ComputeDAG, layouts: tuple[int, ...]) -> list[CudaSource]:
    nests = pipelined_nests(dag, (2,), layouts, np.random.default_rng(0), T4)
    return [emit(nest, T4) for nest in nests]


def staged(text: str) -> bool:
    """Whether tiles go through registers."""
    return re.search(r"__align__\(16\) float next\w*\[\d+\];", text) is not None


def wide_matmul(tiles: int) -> CudaSource:
    """32 x 32 results of 64 threads, 8 terms at a time."""
    (sketch,) = generate(matmul_dag(1024, 1024, 1024), T4)
    row = row_of({
        "C.i@1": 1, "C.i@2": 2, "C.i@3": 4, "C.i@4": 4, "C.i@together": 1,
        "C.j@1": 1, "C.j@2": 1, "C.j@3": 8, "C.j@4": 4,
        "C.local.k@1": 1, "C.local.k@2": 8,
        "C.local.k@tiles": tiles, "A.cache.d1@layout": 0, "B.cache.d1@layout": 0,
    }, sketch)  # fmt: skip
    return emit(lower(sketch, row), T4)


@needs_compiler
@pytest.mark.parametrize("compile_all", [compile_programs, pytest.param(
    compile_checked, marks=pytest.mark.slow
)])  # fmt: skip
def test_staged_tiles_equal_the_oracle(compile_all: Callable[..., list], tmp_path: Path) -> None:
    dags = {name: make() for name, make in CASES.items()}
    found = [(name, s) for name, dag in dags.items() for s in sources_of(dag, (0, 6))]
    assert {name for name, _ in found} == set(CASES)
    assert all(staged(source.text) for _, source in found)
    programs = compile_all([source for _, source in found], tmp_path)
    for (name, source), program in zip(found, programs, strict=True):
        inputs = random_inputs(dags[name], np.random.default_rng(1))
        expected = interpret(dags[name], inputs)
        for reverse in (False, True):
            for key, value in program.run(inputs, reverse=reverse).items():
                assert relative_error(value, expected[key]) < 1e-5, source.text


@needs_nvrtc
@pytest.mark.parametrize("name", ["matmul with tails", "batch_matmul"])
def test_what_the_compiler_makes_of_staged_tiles_equals_the_oracle(name: str) -> None:
    dag = CASES[name]()
    for source in sources_of(dag, (1,)):
        text = ptx_of(source.text, "compute_75")
        assert "cp.async" not in text
        assert (
            error_of(source, text, dag, random_inputs(dag, np.random.default_rng(1))) <= _TOLERANCE
        )


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("name", ["matmul with tails", "batch_matmul"])
def test_faults_of_staged_tiles_are_noticed(name: str) -> None:
    dag = CASES[name]()
    inputs = random_inputs(dag, np.random.default_rng(1))
    for source in sources_of(dag, (0,)):
        found = [m for m in mutants_of(source) if m.kind != "local array halved"]
        assert "barrier deleted" in {mutant.kind for mutant in found}
        assert [m.fault for m in found if not noticed(m, dag, inputs)] == []


@needs_nvrtc
def test_a_tile_that_is_stored_too_early_is_a_race() -> None:
    """The memory of the tile that is read, not the free one."""
    dag = CASES["matmul with tails"]()
    (source,) = sources_of(dag, (0,))
    head, _, tail = source.text.rpartition("const index_t slot = free;")
    early = f"{head}const index_t slot = now;{tail}"
    with pytest.raises(MemoryFault, match="race: write without a barrier"):
        run_ptx(source, ptx_of(early), random_inputs(dag, np.random.default_rng(1)))


@needs_nvrtc
@pytest.mark.parametrize("arch", _ARCHS)
def test_what_is_staged_is_in_registers(arch: str) -> None:
    source = wide_matmul(2)
    assert staged(source.text)
    ((_, resources),) = compile_source(source, arch)[1]
    assert resources.stack_bytes == resources.spill_store_bytes == 0
    ((_, single),) = compile_source(wide_matmul(1), arch)[1]
    assert resources.shared_bytes == 2 * single.shared_bytes


def test_large_tiles_are_not_staged() -> None:
    row = {**MATMUL_ROW, **row_of({"C.local.k@tiles": 2})}
    (sketch,) = generate(matmul_dag(*MATMUL), T4)
    assert staged(emit(lower(sketch, row), T4).text)
    (few, *_) = generate(matmul_dag(256, 256, 256), T4)
    deep = {**row, **row_of({"C.i@4": 16, "C.local.k@1": 8, "C.local.k@2": 4})}
    assert not staged(emit(lower(few, deep), T4).text)


def test_registers_of_the_next_tile_count_where_it_is_staged() -> None:
    (one,), (two,) = (
        matmul_nest(row={**MATMUL_ROW, **row_of({"C.local.k@tiles": tiles})}).roots
        for tiles in (1, 2)
    )
    ahead = registers_of(two, GPU) - registers_of(one, GPU)
    assert registers_of(two, T4) - registers_of(one, T4) == ahead + (16 * 4 + 4 * 8) // 16
