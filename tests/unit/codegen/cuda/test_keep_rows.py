"""Rows that several loops read are read once, and the results stay the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import compile_source, missing_compiler
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.operators.normalization import normalize
from sketch.operators.softmax import softmax
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from tests.support.cuda_programs import GPU, feasible_rows
from tests.support.emulate import COMPILER, compile_programs
from tests.support.workloads import random_inputs

needs_nvrtc = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
_LANES = 64


def softmax_dag(length: int) -> ComputeDAG:
    return ComputeDAG([softmax(placeholder((3, length), name="x"), name="y")])


def norm_dag(length: int) -> ComputeDAG:
    return ComputeDAG([normalize(placeholder((3, length), name="x"), [1], 1e-5, name="y")])


def source_of(dag: ComputeDAG, several: int = 4) -> CudaSource:
    """A row by 64 lanes, ``several`` elements at a time."""
    (sketch, *_) = generate(dag, GPU)
    values = feasible_rows(sketch, 1, np.random.default_rng(0)).row(0)
    inner = {"y.i1@1": _LANES, "y.i1@2": several, "y.i0@1": 1}
    row = {name: inner.get(sketch.labels[name], value) for name, value in values.items()}
    assert set(inner) & set(sketch.labels.values())
    return emit(lower(sketch, row), GPU)


def reads(source: CudaSource) -> int:
    """How many statements read the rows."""
    return source.text.count("&x[") + source.text.count(" x[")


@pytest.mark.parametrize("make", [softmax_dag, norm_dag])
def test_short_rows_are_read_once(make: Callable[[int], ComputeDAG]) -> None:
    source = source_of(make(1024))
    assert "float x_row[16];" in source.text
    assert reads(source) == 1


def test_long_rows_are_read_again() -> None:
    source = source_of(softmax_dag(64 * 1024))
    assert "x_row" not in source.text
    assert reads(source) == 3


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")
def test_rows_in_registers_equal_the_oracle(tmp_path: Path, rng: np.random.Generator) -> None:
    dags = [make(length) for make in (softmax_dag, norm_dag) for length in (1024, 1000, 516)]
    sources = [source_of(dag) for dag in dags]
    assert sum("x_row" in source.text for source in sources) >= 4
    for dag, program in zip(dags, compile_programs(sources, tmp_path), strict=True):
        inputs = random_inputs(dag, rng)
        expected = interpret(dag, inputs)["y"]
        forward, backward = (program.run(inputs, reverse=order)["y"] for order in (False, True))
        assert np.array_equal(forward, backward)
        np.testing.assert_allclose(forward, expected, rtol=1e-5, atol=1e-6)


@needs_nvrtc
def test_rows_stay_in_registers() -> None:
    _, resources = compile_source(source_of(softmax_dag(2048)), GPU.arch)
    assert not any(found.spills or found.stack_bytes for _, found in resources)
