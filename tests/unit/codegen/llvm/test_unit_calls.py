"""Instructions of tensor units give what their descriptions say, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from codegen.build import emit
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import cast
from sketch.lang.tensor import compute, placeholder
from sketch.lower import lower
from sketch.operators.matmul import matmul
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.units import units_of
from tests.support.compiled import run_compiled
from tests.support.units import HALVES, WIDE, int_product, on_units

HERE = host_target(1)
HAS_FLOATS = any(unit.lhs == "bfloat16" for unit in units_of(HERE))


def rounded_product(constant: bool) -> ComputeDAG:
    """``bfloat16(A @ B)``, on a unit where B is a constant."""
    product = int_product(4, 32, 8, HALVES)
    sums = product.outputs[0]
    lhs, rhs = product.inputs
    if not constant:
        other = placeholder(rhs.shape, rhs.dtype, name="B")
        sums = matmul(lhs, other, "C", "float32")
    shape = sums.shape
    return ComputeDAG([compute(shape, lambda i, j: cast(sums[i, j], "bfloat16"), name="D")])


def test_kernels_of_the_unit_round_by_an_instruction(rng: np.random.Generator) -> None:
    """Others keep denormal numbers."""
    for constant in (True, False):
        dag = rounded_product(constant)
        sketch = on_units(dag, WIDE)[0] if constant else generate(dag, WIDE)[0]
        target = replace(WIDE, features=f"{WIDE.features},+avx512vl")
        text = emit(lower(sketch, sample(sketch, 1, rng).row(0)), target, "f").text
        assert ("fptrunc" in text) == constant


def fused(a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """``a * b + acc`` rounded once: exact in float64 where exponents are close to each other."""
    return (a.astype(np.float64) * b.astype(np.float64) + acc).astype(np.float32)


@pytest.mark.skipif(not HAS_FLOATS, reason="this CPU multiplies no 16-bit floats")
def test_products_of_floats_are_fused_one_after_the_other(rng: np.random.Generator) -> None:
    """The second of each pair first, every sum rounded to nearest."""
    m, n, k = 4, 32, 12
    dag = int_product(m, n, k, HALVES)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a *= 2.0 ** rng.integers(-6, 7, k)
    inputs = {"A": a.astype(ml_dtypes.bfloat16), "B": b.astype(ml_dtypes.bfloat16)}
    wide_a, wide_b = (array.astype(np.float32) for array in inputs.values())
    expected = np.zeros((m, n), np.float32)
    for first in range(0, k, 2):
        for term in (first + 1, first):
            expected = fused(wide_a[:, term, None], wide_b[term], expected)
    sketch = on_units(dag, HERE)[0]
    found = run_compiled(sketch, sample(sketch, 1, rng).row(0), inputs, HERE)["C"]
    np.testing.assert_array_equal(found.reshape(m, n), expected)
    in_order = np.zeros((m, n), np.float32)
    for term in range(k):
        in_order = fused(wide_a[:, term, None], wide_b[term], in_order)
    assert (in_order != expected).any()  # the test can tell them apart
