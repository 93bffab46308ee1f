"""Sums on GPUs are computed inside what reads them: rows before a product are one launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import emit
from codegen.cuda.nvrtc import missing_compiler
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.operators.elementwise import relu
from sketch.operators.matmul import dense
from sketch.operators.normalization import normalize
from sketch.operators.reduction import sum as sum_of
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from sketch.schedule.stage import Role
from sketch.target.gpu_targets import cuda_target
from tests.support.cuda_programs import feasible_nests, feasible_rows
from tests.support.emulate import COMPILER, compile_programs
from tests.support.errors import relative_error
from tests.support.ptx.run import ptx_of, run_ptx
from tests.support.workloads import attention_dag, random_inputs

H200 = cuda_target("h200")


def norm_and_product(rows: int = 6, width: int = 40, columns: int = 20) -> ComputeDAG:
    data = placeholder((rows, width), name="x")
    weight = placeholder((width, columns), name="w")
    return ComputeDAG([dense(normalize(data, [1], 1e-5, name="n"), weight, name="y")])


def product_of_two_readers(rows: int = 6, width: int = 40, columns: int = 20) -> ComputeDAG:
    data, weight = placeholder((rows, width), name="x"), placeholder((width, columns), name="w")
    product = dense(data, weight, name="y")
    return ComputeDAG([relu(product, name="r"), sum_of(product, 1, name="s")])


# With the launches of the sketch without split sums.
CASES: Mapping[str, tuple[Callable[[], ComputeDAG], int]] = {
    "attention": (attention_dag, 3),
    "norm and product": (norm_and_product, 2),
    "product of two readers": (product_of_two_readers, 3),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_sums_of_rows_are_no_launches_of_their_own(name: str) -> None:
    make, launches = CASES[name]
    (sketch, *_) = generate(make(), H200)
    row = feasible_rows(sketch, 1, np.random.default_rng(0)).row(0)
    assert len(emit(lower(sketch, row), H200).launches) == launches


@pytest.mark.parametrize("name", sorted(CASES))
def test_private_sums_are_inside_of_threads(name: str) -> None:
    """At the root they would be in global memory."""
    for sketch in generate(CASES[name][0](), H200):
        sums = [plan for plan in sketch.program.stages if Role.ACCUMULATE in plan.roles]
        assert sums
        assert [plan.op.name for plan in sums if plan.attach is None] == []


def test_scores_of_an_attention_are_tiled() -> None:
    (sketch, *_) = generate(attention_dag(12, 128, 128, 64), H200)
    shared = {plan.op.name for plan in sketch.program.stages if plan.shared}
    assert shared == {"Q.cache", "K.cache", "P.cache", "V.cache"}


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")
def test_products_of_rows_equal_the_oracle(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    dags = [make() for make, _ in CASES.values()]
    pairs = [(dag, emit(nest, H200)) for dag in dags for nest in feasible_nests(dag, 1, rng, H200)]
    programs = compile_programs([source for _, source in pairs], tmp_path)
    for (dag, source), program in zip(pairs, programs, strict=True):
        inputs = random_inputs(dag, rng)
        expected = interpret(dag, inputs)
        found = [program.run(inputs), program.run(inputs, reverse=True)]
        if missing_compiler() is None:
            found.append(run_ptx(source, ptx_of(source.text), inputs))
        for results in found:
            for name, value in results.items():
                assert relative_error(value, expected[name]) < 1e-5, source.text
