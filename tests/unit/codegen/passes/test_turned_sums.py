"""What lanes have reduced apart is read by whole vectors, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen import build
from codegen.build import emit
from codegen.passes.turned_sums import turned_sums
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.loopnest import Allocate, LoopNest
from sketch.nest.walk import walk
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.compiled import run_compiled
from tests.support.cpu_targets import runnable
from tests.support.workloads import random_inputs

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


def copies(nest: LoopNest) -> int:
    """How many turned copies there are."""
    nodes = walk(nest.roots)
    return sum(isinstance(n, Allocate) and n.buffer.name.endswith(".turned") for n in nodes)


def compare(dag: ComputeDAG, seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run random programs of all sketches with and without the copies; how many there were."""
    rng, passed = np.random.default_rng(seed), list[LoopNest]()
    inputs = random_inputs(dag, rng)

    def noted(nest: LoopNest) -> LoopNest:
        passed.append(turned_sums(nest))
        return passed[-1]

    for sketch in generate(dag, TARGET):
        row = sample(sketch, 1, rng).row(0)
        found: list[dict[str, np.ndarray]] = []
        for each in (noted, lambda nest: nest):
            monkeypatch.setattr(build, "turned_sums", each)
            found.append(run_compiled(sketch, row, inputs, TARGET))
        for output, values in found[0].items():
            np.testing.assert_array_equal(values, found[1][output])
    return sum(map(copies, passed))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", REDUCERS)
def test_sums_of_short_rows(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(of_rows(name, (37, 56), dtype), 3, monkeypatch)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.integers(1, 90),
    st.sampled_from(sorted(REDUCERS)),
    st.integers(0, 999),
)
def test_any_rows(outer: list[int], columns: int, name: str, seed: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        compare(of_rows(name, (*outer, columns)), seed, monkeypatch)


def test_elements_of_8_bytes_are_read_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not compare(of_rows("sum", (37, 56), "float64"), 3, monkeypatch)


def test_lanes_read_neighbours() -> None:
    """No vector is put together of single elements, as in a gather."""
    dag = of_rows("sum", (256, 64))
    (sketch,) = generate(dag, TARGET)
    row = sample(sketch, 1, np.random.default_rng(1)).row(0)
    text = emit(lower(sketch, row), TARGET, "f").text
    assert "shufflevector" in text and "insertelement" not in text
