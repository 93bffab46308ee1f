"""Instructions of tensor units give what their descriptions say, to the last bit."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from codegen.build import emit
from codegen.host import host_target
from codegen.llvm.machine import emit_assembly
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import cast
from sketch.lang.tensor import compute, placeholder
from sketch.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.operators.matmul import matmul
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.rules.unit_fit import unit_of
from sketch.target.units import units_of
from tests.support.compiled import packed_inputs, run_compiled
from tests.support.units import (
    HALVES,
    WIDE,
    int_arrays,
    int_product,
    on_units,
    oracle,
    with_feature,
)

HERE = host_target(1)
HAS_FLOATS = any(unit.lhs == "bfloat16" for unit in units_of(HERE))


def rounded_product(constant: bool) -> ComputeDAG:
    """``bfloat16(A @ B)``."""
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
    for constant in (True, False):  # on a unit, and not
        dag = rounded_product(constant)
        units = {s.key for s in on_units(dag, WIDE)}
        sketch = next(s for s in generate(dag, WIDE) if (s.key in units) == constant)
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


@pytest.mark.parametrize(
    ("name", "features", "types", "instruction"),
    [
        ("cpu-neon", ("dotprod",), ("int8", "int8"), r"\bsdot\s+v\d+\.4s"),
        ("cpu-neon", ("dotprod", "i8mm"), ("uint8", "int8"), r"\busdot\s+v\d+\.4s"),
        ("cpu-neon", ("dotprod", "i8mm"), ("int8", "uint8"), r"\busdot\s+v\d+\.4s"),
        ("cpu-neon", ("bf16",), HALVES, r"\bbfdot\s+v\d+\.4s"),
        ("cpu-avx2", ("avxvnniint8",), ("int8", "int8"), r"\bvpdpbssd\b"),
        ("cpu-avx2", ("avxvnni",), ("uint8", "int8"), r"\bvpdpbusd\b"),
    ],
)
def test_other_machines_have_code(
    name: str, features: tuple[str, ...], types: tuple[str, str], instruction: str
) -> None:
    """Units of one row, odd sizes, terms that end in a group; what loops compute is the oracle."""
    target = with_feature(name, *features)
    dag, rng = int_product(13, 19, 30, types), np.random.default_rng(0)
    arrays = int_arrays(dag, rng)
    expected = oracle(dag, arrays)
    single = tuple(unit for unit in units_of(target) if unit.m == 1)
    sketches = [sketch for sketch in on_units(dag, target) if unit_of(sketch, single) is not None]
    assert sketches
    for sketch in sketches:
        row = sample(sketch, 1, rng).row(0)
        nest = lower(sketch, row)
        assert re.search(instruction, emit_assembly(emit(nest, target, "f").text, target))
        found = run_nest(nest, packed_inputs(sketch, row, arrays))["C"]
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def test_unsigned_bytes_are_the_first_factor() -> None:
    """Whichever operand has them: the lanes of A are one group of it, those of B are loaded."""
    target = with_feature("cpu-neon", "dotprod", "i8mm")
    firsts = []
    for types in (("uint8", "int8"), ("int8", "uint8")):
        sketch = on_units(int_product(1, 4, 4, types), target)[0]
        row = {decision.id: 1 for decision in sketch.decisions}
        text = emit(lower(sketch, row), target, "f").text
        text = text.partition("define")[2]
        called = re.search(r"usdot[^(]*\(<4 x i32>[^%]*<16 x i8> (%\w+),", text)
        assert called is not None
        word = re.search(rf"{called[1]} = bitcast <4 x i32> (%\w+) to", text)
        assert word is not None
        made = re.search(rf"{word[1]} = (\w+)", text)
        assert made is not None
        firsts.append(made[1])
    assert firsts == ["shufflevector", "load"]
