"""Tiles whose rows have their pieces in other places: the same results, wide accesses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import missing_compiler
from codegen.gpu.emulation.checked import compile_checked
from codegen.gpu.emulation.library import compiler
from sketch.oracle.interpret import interpret
from tests.support.cuda_programs import GPU, MATMUL_ROW, matmul_nest, row_of
from tests.support.emulate import compile_programs
from tests.support.ptx.run import ptx_of, run_ptx
from tests.support.workloads import matmul_dag, random_inputs

SHAPE = (20, 22, 72)
LAYOUTS = ((4, 0, 1), (4, 4, 3))  # of A, of B, and how many tiles


def source_of(layouts: tuple[int, int, int]) -> CudaSource:
    of_a, of_b, tiles = layouts
    row = row_of({
        "C.local.k@1": 8, "C.local.k@2": 4, "C.local.k@tiles": tiles, "C.j@2": 8,
        "A.cache.d1@layout": of_a, "B.cache.d1@layout": of_b,
    })  # fmt: skip
    return emit(matmul_nest(SHAPE, {**MATMUL_ROW, **row}), GPU)


def test_both_sides_of_a_tile_are_swizzled() -> None:
    text = source_of((4, 0, 2)).text
    assert text.count("A_cache[") == text.count("swizzled<32, 8, 4>(") + text.count(" A_cache[")
    assert "swizzled" not in source_of((0, 0, 2)).text


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_results_are_those_of_the_oracle(tmp_path: Path) -> None:
    inputs = random_inputs(matmul_dag(*SHAPE), np.random.default_rng(0))
    expected = interpret(matmul_dag(*SHAPE), inputs)["C"]
    sources = [source_of(layouts) for layouts in LAYOUTS]
    programs = [*compile_programs(sources, tmp_path), *compile_checked(sources, tmp_path)]
    for program in programs:
        np.testing.assert_allclose(program.run(inputs)["C"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
def test_the_compiler_keeps_them() -> None:
    inputs = random_inputs(matmul_dag(*SHAPE), np.random.default_rng(0))
    source = source_of(LAYOUTS[1])
    found = run_ptx(source, ptx_of(source.text), inputs)["C"]
    expected = interpret(matmul_dag(*SHAPE), inputs)["C"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
