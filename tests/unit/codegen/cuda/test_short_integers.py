"""Index arithmetic in 32 bits: where it fits, and the same values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Expr, cast
from sketch.lang.functions import maximum, minimum
from sketch.lang.tensor import Tensor, compute, placeholder
from sketch.oracle.interpret import interpret
from tests.support.cuda_programs import GPU, feasible_nests
from tests.support.emulate import COMPILER, compile_programs
from tests.support.workloads import random_inputs

_EXTENT = 40


def dag_of(index: Callable[[Expr], Expr]) -> ComputeDAG:
    """``y[i] = x[index(i)]``."""
    data = placeholder((_EXTENT,), name="x")
    result: Tensor = compute((_EXTENT,), lambda i: data[index(i)], name="y")
    return ComputeDAG([result])


def source_of(dag: ComputeDAG) -> CudaSource:
    return emit(next(feasible_nests(dag, 1, np.random.default_rng(0))), GPU)


def kernel_of(index: Callable[[Expr], Expr]) -> str:
    """The text of the kernel, without the functions before it."""
    text = source_of(dag_of(index)).text
    return text[text.index("__global__") :]


INDICES: dict[str, Callable[[Expr], Expr]] = {
    "never negative": lambda i: i // 7 * 5 + i % 7,
    "negative": lambda i: (i - 25) // 7 + 4 + (i - 30) % 9,
    "clamped": lambda i: minimum(maximum((i - 3) // 2 * 5, 0), _EXTENT - 1),
}


def test_divisions_of_what_is_never_negative_are_those_of_the_machine() -> None:
    text = kernel_of(INDICES["never negative"])
    assert "trunc_div((int)" in text and "trunc_mod((int)" in text
    assert "floor_" not in text


def test_divisions_of_what_may_be_negative_round_down() -> None:
    text = kernel_of(INDICES["negative"])
    assert "floor_div((int)" in text and "floor_mod((int)" in text
    assert "trunc_" not in text


@pytest.mark.parametrize("factor", [2**31, -(2**33)])
def test_what_does_not_fit_stays_long(factor: int) -> None:
    text = kernel_of(lambda i: minimum(maximum((i % 7 * factor) // (i + 1), 0), 1))
    assert "floor_div(" in text
    assert "floor_div((int)" not in text and "trunc_div" not in text


def test_data_stays_long() -> None:
    table = placeholder((_EXTENT,), dtype="int64", name="t")
    data = placeholder((_EXTENT,), name="x")
    dag = ComputeDAG([compute((_EXTENT,), lambda i: data[table[i] * 3 % _EXTENT], name="y")])
    text = source_of(dag).text
    assert "floor_mod((t[" in text[text.index("__global__") :]


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")
def test_values_are_the_same(tmp_path: Path, rng: np.random.Generator) -> None:
    dags = [dag_of(index) for index in INDICES.values()]
    number = compute((_EXTENT,), lambda i: cast((i - 9) // 4 * 1000003, "float32"), name="y")
    dags.append(ComputeDAG([number]))
    for dag, program in zip(
        dags, compile_programs([source_of(d) for d in dags], tmp_path), strict=True
    ):
        inputs = random_inputs(dag, rng)
        np.testing.assert_array_equal(program.run(inputs)["y"], interpret(dag, inputs)["y"])
