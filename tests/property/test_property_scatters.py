"""Reductions whose terms go where data say: the compiled kernel equals the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import select
from sketch.lang.functions import all_of, equal
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.operators.scatter import received, scatter
from sketch.oracle.interpret import interpret
from sketch.oracle.reference import reference
from sketch.population.population import mutate, sample
from sketch.rules.generate import generate
from tests.support.compiled import run_compiled
from tests.support.examples import examples

HOST = host_target(1)


@st.composite
def scatters(draw: Any) -> ComputeDAG:
    """Arrays of up to three dimensions; places of whole rows, of elements, or of a mixture."""
    shape = draw(st.lists(st.integers(1, 37), min_size=1, max_size=3))
    axis = draw(st.integers(0, len(shape) - 1))
    sent = [*shape]
    sent[axis] = draw(st.integers(1, 70))
    own = [n if d == axis or draw(st.booleans()) else 1 for d, n in enumerate(sent)]
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "int32", "int64", "int8"]))
    function = draw(st.sampled_from(["last", "sum", "prod", "max", "min"]))
    places = placeholder(own, draw(st.sampled_from(["int32", "int64", "int8"])), name="places")
    updates = placeholder(sent, dtype, name="updates")
    if function != "last" and draw(st.booleans()):
        return ComputeDAG([received(places, updates, axis, shape[axis], function, "out")])
    data = placeholder(shape, dtype, name="data")
    return ComputeDAG([scatter(data, places, updates, axis, function, "out")])


def values(dag: ComputeDAG, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Places reach beyond the data on both sides."""
    extent = max(dag.outputs[0].shape)
    found: dict[str, np.ndarray] = {}
    for tensor in dag.inputs:
        if tensor.name == "places" or np.issubdtype(np.dtype(tensor.dtype), np.integer):
            low, high = (-extent - 2, extent + 2) if tensor.name == "places" else (-2, 3)
            found[tensor.name] = rng.integers(low, high, tensor.shape).astype(tensor.dtype)
        else:
            found[tensor.name] = rng.standard_normal(tensor.shape).astype(tensor.dtype)
    return found


@examples(60)
@given(
    dag=scatters(),
    threads=st.sampled_from([1, 2, 5]),
    choice=st.integers(0, 47),
    seed=st.integers(0, 2**32),
)
def test_any_scatter(dag: ComputeDAG, threads: int, choice: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = HOST.with_threads(threads)
    sketches = generate(dag, target)
    sketch = sketches[choice % len(sketches)]
    row = mutate(sample(sketch, 1, rng), rng).row(0)
    inputs = values(dag, rng)
    outputs = run_compiled(sketch, row, inputs, target)
    found = reference(dag, inputs, rng)
    shaped = {name: outputs[name].reshape(part.shape) for name, part in found.outputs.items()}
    assert found.check(shaped) < 1e-5, f"{sketch} with {row}"


@examples(60)
@given(dag=scatters(), seed=st.integers(0, 2**32))
def test_the_oracle_of_terms_is_that_of_pairs(dag: ComputeDAG, seed: int) -> None:
    inputs = values(dag, np.random.default_rng(seed))
    fast, slow = interpret(dag, inputs), interpret(dag, inputs, fast=False)
    np.testing.assert_allclose(fast["out"], slow["out"], rtol=1e-12, atol=1e-12)


@examples(25)
@given(
    rows=st.integers(2, 9),
    columns=st.integers(2, 40),
    terms=st.integers(1, 60),
    threads=st.sampled_from([1, 2]),
    seed=st.integers(0, 2**32),
)
def test_two_axes_at_once(rows: int, columns: int, terms: int, threads: int, seed: int) -> None:
    """A histogram of two dimensions, of what is in range and not too small."""
    x, y = (placeholder((terms,), "int32", name=name) for name in "xy")
    w = placeholder((terms,), "float32", name="w")
    t = reduce_axis(terms, "t")
    out = compute(
        (rows, columns),
        lambda i, j: reducers.sum(
            select(all_of(equal(x[t], i), equal(j, y[t]), w[t] > -1.0), w[t], 0.0), t
        ),
        name="out",
    )
    dag, rng = ComputeDAG([out]), np.random.default_rng(seed)
    inputs = {
        "x": rng.integers(-1, rows + 1, terms).astype(np.int32),
        "y": rng.integers(-1, columns + 1, terms).astype(np.int32),
        "w": rng.standard_normal(terms).astype(np.float32),
    }
    target = HOST.with_threads(threads)
    sketch = generate(dag, target)[0]
    outputs = run_compiled(sketch, sample(sketch, 1, rng).row(0), inputs, target)
    wanted = np.zeros((rows, columns))
    for i, j, weight in zip(*inputs.values(), strict=True):
        if 0 <= i < rows and 0 <= j < columns and weight > -1:
            wanted[i, j] += weight
    np.testing.assert_allclose(outputs["out"], wanted, atol=1e-4)
