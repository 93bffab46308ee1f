"""Every scalar type through every kind of code: compiled kernels equal the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.dtypes import SUPPORTED, is_float
from sketch.lang.expr import cast, select
from sketch.lang.functions import maximum
from sketch.lang.tensor import compute, placeholder, reduce_axis
from tests.support.compiled import check_run, random_run
from tests.support.cpu_targets import in_turns, instruction_sets
from tests.support.dtype_programs import NUMBERS, arithmetic, conversions, inputs_of, small_inputs

TARGETS = instruction_sets()
REDUCTIONS = ("max", "min", "sum", "prod")
# Sketches of a reduction; a table of cases takes them in turns.
CHOICES = 3


@pytest.mark.parametrize(("source", "target"), in_turns(SUPPORTED, TARGETS))
def test_casts(source: str, target) -> None:
    dag = conversions(source, (3, 67))
    check_run(dag, inputs_of(dag, 1), target, 0, 0, rows=8)


@pytest.mark.parametrize(("dtype", "target"), in_turns(SUPPORTED, TARGETS))
def test_copies_keep_the_bits(dtype: str, target) -> None:
    data = placeholder((5, 37), dtype, "data")
    dag = ComputeDAG([compute((37, 5), lambda i, j: data[j, i], name="turned")])
    inputs = inputs_of(dag, 2)
    got = random_run(dag, inputs, target, 0, 0)["turned"]
    np.testing.assert_array_equal(got.view(np.uint8), inputs["data"].T.copy().view(np.uint8))


@pytest.mark.parametrize(("dtype", "target"), in_turns(NUMBERS, TARGETS))
def test_operators(dtype: str, target) -> None:
    for dag in arithmetic(dtype):
        inputs = inputs_of(dag, 3) if not is_float(dtype) else small_inputs(dag, 3)
        check_run(dag, inputs, target, 0, 0, rows=8)


@pytest.mark.parametrize(("dtype", "target"), in_turns(NUMBERS, TARGETS))
def test_sums_of_products(dtype: str, target) -> None:
    lhs = placeholder((7, 19), dtype, "lhs")
    rhs = placeholder((19, 37), dtype, "rhs", constant=True)
    k = reduce_axis(19)
    total = compute((7, 37), lambda i, j: reducers.sum(lhs[i, k] * rhs[k, j], k), name="total")
    dag = ComputeDAG(
        [compute((7, 37), lambda i, j: cast(maximum(total[i, j], 0), dtype), name="result")]
    )
    choice = (NUMBERS.index(dtype) + TARGETS.index(target)) % CHOICES
    check_run(dag, small_inputs(dag, choice), target, choice, choice)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions(dtype: str, kind: str) -> None:
    data = placeholder((6, 83), dtype, "data")
    k = reduce_axis(83)
    reduce = getattr(reducers, kind)
    dag = ComputeDAG([compute(6, lambda i: reduce(data[i, k], k), name="result")])
    choice = (NUMBERS.index(dtype) + REDUCTIONS.index(kind)) % CHOICES
    check_run(dag, small_inputs(dag, choice), TARGETS[0], choice, choice)


@pytest.mark.parametrize("dtype", SUPPORTED)
def test_selected_padding(dtype: str) -> None:
    data = placeholder((61,), dtype, "data")
    fill = 1 if dtype == "bool" else 3
    dag = ComputeDAG(
        [compute(65, lambda i: select(i >= 4, data[i - 4], cast(fill, dtype)), name="result")]
    )
    check_run(dag, inputs_of(dag, 5), TARGETS[0], 0, 0)
