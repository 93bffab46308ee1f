"""The text of CUDA programs, run on the CPU, equals the oracle in both orders of threads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from autosched.workloads import get
from codegen.cuda.build import emit
from sketch.dag.dag import ComputeDAG
from sketch.lang.reducers import sum as sum_of
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.oracle.interpret import interpret
from tests.support.cuda_programs import GPU, MATMUL, feasible_nests, matmul_nest
from tests.support.emulate import COMPILER, EmulationError, Program, compile_programs
from tests.support.errors import relative_error
from tests.support.masked_rows import masked_attention
from tests.support.small_workloads import SMALL
from tests.support.workloads import (
    WORKLOADS,
    batch_matmul_dag,
    conv2d_relu,
    dense_relu,
    matmul_dag,
    random_inputs,
)

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")

# Primes and ones: tails on every axis, tiles larger than extents.
TAILS: Mapping[str, Callable[[], ComputeDAG]] = {
    "matmul 17 19 23": lambda: matmul_dag(17, 19, 23),
    "matmul 31 29 37": lambda: matmul_dag(31, 29, 37),
    "matmul 1 41 13": lambda: matmul_dag(1, 41, 13),
    "matmul 47 43 1": lambda: matmul_dag(47, 43, 1),
    "dense_relu 13 37 29": lambda: dense_relu(13, 37, 29),
    "batch_matmul 3 7 11 5": lambda: batch_matmul_dag(3, 7, 11, 5),
    "conv2d 11 5 7 stride 2": lambda: conv2d_relu(11, 5, 7, 3, 2, 1),
    "conv2d 7 3 11 kernel 5": lambda: conv2d_relu(7, 3, 11, 5, 1, 2),
    **{
        name: partial(get(name).dag, *SMALL[name])
        for name in ("C1D", "C3D", "GRP", "T2D", "CAP", "NRM", "TBMM")
    },
}


def scaled_products() -> ComputeDAG:
    """Sums of products with one number: what has no dimensions is in no shared memory."""
    factor, data = placeholder((), name="f"), placeholder((13, 37), name="x")
    weight, k = placeholder((37, 11), name="w"), reduce_axis(37)
    return ComputeDAG(
        [compute((13, 11), lambda i, j: sum_of(factor[()] * data[i, k] * weight[k, j], k))]
    )


# Loops of a GPU go through all columns.
MASKED = {"masked attention 9 11": partial(masked_attention, 9, 11, (1, 2), 4)}
CASES = {**WORKLOADS, **TAILS, **MASKED, "scaled products": scaled_products}
_ROWS = 3

Programs = Mapping[str, tuple[ComputeDAG, list[Program]]]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """Random feasible rows of every sketch of every case, compiled as one library."""
    rng = np.random.default_rng(0)
    dags = {name: make() for name, make in CASES.items()}
    sources = {
        name: [emit(nest, GPU) for nest in feasible_nests(dag, _ROWS, rng)]
        for name, dag in dags.items()
    }
    every = [source for found in sources.values() for source in found]
    made = iter(compile_programs(every, tmp_path_factory.mktemp("cuda")))
    return {name: (dag, [next(made) for _ in sources[name]]) for name, dag in dags.items()}


@pytest.mark.parametrize("name", sorted(CASES))
def test_programs_equal_the_oracle(name: str, programs: Programs, rng: np.random.Generator) -> None:
    dag, made = programs[name]
    inputs = random_inputs(dag, rng)
    expected = interpret(dag, inputs)
    assert made
    for program in made:
        forward, backward = program.run(inputs), program.run(inputs, reverse=True)
        for key, value in forward.items():
            assert np.array_equal(value, backward[key]), f"{key} depends on the order of threads"
            assert relative_error(value, expected[key]) < 1e-5


@pytest.mark.parametrize("name", ["matmul 17 19 23", "conv2d 11 5 7 stride 2"])
def test_dropped_guards_do_not_show_with_infinite_inputs(
    name: str, programs: Programs, rng: np.random.Generator
) -> None:
    dag, made = programs[name]
    inputs = random_inputs(dag, rng)
    for array in inputs.values():
        array.reshape(-1)[::7] = np.inf
    with np.errstate(all="ignore"):
        expected = interpret(dag, inputs)
    for program in made:
        for key, value in program.run(inputs).items():
            assert relative_error(value, expected[key]) < 1e-5


@pytest.mark.parametrize("special", [(np.nan,), (np.nan, np.inf, -np.inf, -0.0)], ids=str)
@pytest.mark.parametrize("name", sorted(CASES))
def test_special_numbers_appear_where_the_oracle_has_them(
    name: str, special: tuple[float, ...], programs: Programs, rng: np.random.Generator
) -> None:
    dag, made = programs[name]
    inputs = random_inputs(dag, rng)
    for array in inputs.values():
        chosen = rng.random(array.shape) < 0.05
        array[chosen] = rng.choice(special, chosen.sum())
    expected = interpret(dag, inputs)
    for program in made:
        for key, value in program.run(inputs).items():
            assert relative_error(value, expected[key]) < 1e-5


def test_missing_and_divergent_barriers_are_noticed(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    source = emit(matmul_nest(), GPU)
    assert source.text.count("__syncthreads();") == 2
    none = re.sub(r"__syncthreads\(\);", "", source.text)
    some = source.text.replace("__syncthreads();", "if (thread < 5) __syncthreads();", 1)
    sources = [replace(source, text=text) for text in (source.text, none, some)]
    right, racing, divergent = compile_programs(sources, tmp_path)
    inputs = random_inputs(matmul_dag(*MATMUL), rng)
    both = [right.run(inputs)["C"], right.run(inputs, reverse=True)["C"]]
    assert np.array_equal(both[0], both[1])
    raced = [racing.run(inputs)["C"], racing.run(inputs, reverse=True)["C"]]
    assert not np.array_equal(raced[0], raced[1])
    with pytest.raises(EmulationError, match="some threads do not reach a barrier"):
        divergent.run(inputs)
