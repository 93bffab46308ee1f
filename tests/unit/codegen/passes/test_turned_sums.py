"""What lanes have reduced apart is read by whole vectors, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.build import emit
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.cpu_targets import runnable
from tests.support.pass_effects import copies_for_same_bits

TARGET = runnable()[0]
REDUCERS = {
    "sum": reducers.sum, "max": reducers.max, "min": reducers.min, "prod": reducers.prod,
}  # fmt: skip


def of_rows(name: str, shape: tuple[int, ...], dtype: str = "float32") -> ComputeDAG:
    """What each row is reduced to, and something done to it."""
    data, k = placeholder(shape, name="X", dtype=dtype), reduce_axis(shape[-1], "k")
    rows = shape[:-1]
    row = compute(rows, lambda *i: REDUCERS[name](data[(*i, k)], k), name="R")
    return ComputeDAG([compute(rows, lambda *i: row[i] * 3, name="Y")])


def copies(dag: ComputeDAG, seed: int = 3) -> int:
    return copies_for_same_bits(dag, TARGET, seed, "turned_sums")


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", REDUCERS)
def test_sums_of_short_rows(name: str, dtype: str) -> None:
    assert copies(of_rows(name, (37, 56), dtype))


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.integers(1, 90),
    st.sampled_from(sorted(REDUCERS)),
    st.integers(0, 999),
)
def test_any_rows(outer: list[int], columns: int, name: str, seed: int) -> None:
    copies(of_rows(name, (*outer, columns)), seed)


def test_elements_of_8_bytes_are_read_as_before() -> None:
    assert not copies(of_rows("sum", (37, 56), "float64"))


def test_vectors_that_llvm_loads_in_parts_are_not_made() -> None:
    assert not copies(of_rows("sum", (13, 56)))


def test_lanes_read_neighbours() -> None:
    """No vector is put together of single elements, as in a gather."""
    dag = of_rows("sum", (256, 64))
    (sketch,) = generate(dag, TARGET)
    row = sample(sketch, 1, np.random.default_rng(1)).row(0)
    text = emit(lower(sketch, row), TARGET, "f").text
    assert "shufflevector" in text and "insertelement" not in text
