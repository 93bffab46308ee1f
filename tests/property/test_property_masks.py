"""Rows that see a part of their columns: whatever loops leave out, results are those of all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from codegen.build import prepare
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Const, select
from sketch.lang.functions import all_of
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.oracle.interpret import interpret
from sketch.population.population import mutate, sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from tests.support.compiled import packed_inputs, random_run, run_compiled
from tests.support.examples import examples
from tests.support.masked_rows import masked_attention
from tests.support.odd_names import renamed
from tests.support.workloads import random_inputs

HOST = host_target(1)
TARGETS = {
    "host, one thread": HOST,
    "host, two threads": HOST.with_threads(2),
    "4 lanes, 16 registers": replace(HOST, vector_bytes=16, registers=16, fma_accumulators=4),
}


@st.composite
def programs(draw: st.DrawFn, rows: tuple[int, int], columns: tuple[int, int]) -> ComputeDAG:
    dag = masked_attention(
        draw(st.integers(*rows)),
        draw(st.integers(*columns)),
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        draw(st.integers(-9, 40)),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 40)),
        draw(st.booleans()),
    )
    return draw(renamed(dag))


def inputs_of(dag: ComputeDAG, rng: np.random.Generator, unseen: bool) -> dict[str, np.ndarray]:
    """``unseen``: some rows of q, and the last of k, are no numbers."""
    q, k, v = random_inputs(dag, rng).values()
    if unseen:
        q[rng.integers(len(q), size=2)] = np.nan
        k[-1] = np.inf
    return dict(zip((tensor.name for tensor in dag.inputs), (q, k, v), strict=True))


def check(found: np.ndarray, dag: ComputeDAG, inputs: dict[str, np.ndarray]) -> None:
    (expected,) = interpret(dag, inputs).values()
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


@examples(40)
@given(
    dag=programs((60, 150), (1, 150)),
    target=st.sampled_from(sorted(TARGETS)),
    choice=st.integers(0, 47),
    seed=st.integers(0, 2**32),
    unseen=st.booleans(),
)
def test_compiled(dag: ComputeDAG, target: str, choice: int, seed: int, unseen: bool) -> None:
    rng = np.random.default_rng(seed)
    sketches = generate(dag, TARGETS[target])
    sketch = sketches[choice % len(sketches)]
    row = mutate(sample(sketch, 1, rng), rng).row(0)
    inputs = inputs_of(dag, rng, unseen)
    (found,) = run_compiled(sketch, row, inputs, TARGETS[target]).values()
    check(found, dag, inputs)


@examples(12)
@given(
    dag=programs((1, 70), (1, 25)),
    choice=st.integers(0, 47),
    seed=st.integers(0, 2**32),
)
def test_nothing_is_read_that_was_left_out(dag: ComputeDAG, choice: int, seed: int) -> None:
    """The interpreter's memory is NaN before it is written."""
    rng = np.random.default_rng(seed)
    target: Target = TARGETS["4 lanes, 16 registers"]
    sketches = generate(dag, target)
    sketch = sketches[choice % len(sketches)]
    row = mutate(sample(sketch, 1, rng), rng).row(0)
    inputs = inputs_of(dag, rng, False)
    arrays = packed_inputs(sketch, row, inputs)
    (found,) = run_nest(prepare(lower(sketch, row), target), arrays).values()
    check(found, dag, inputs)


@st.composite
def bounded_rows(draw: st.DrawFn) -> ComputeDAG:
    """Rows reduced between two bounds, which may contradict each other: next to the elements, or
    some in a stage that pads them and others in the one that reads it.
    """
    rows, columns = draw(st.integers(1, 40)), draw(st.integers(1, 50))
    slope = draw(st.integers(0, 1))
    low, high = (draw(st.integers(-8, columns + 8)) for _ in range(2))
    reduce, rest = draw(st.sampled_from([(reducers.sum, 0.0), (reducers.max, -np.inf)]))
    x, k = placeholder((rows, columns), name="x"), reduce_axis(columns, "k")
    outside = Const(rest, "float32")
    if draw(st.booleans()):
        x = compute(
            x.shape, lambda i, j: select(j < slope * i + high, x[i, j], outside), name="padded"
        )
        high = 2 * columns
    return ComputeDAG(
        [
            compute(
                (rows,),
                lambda i: reduce(
                    select(all_of(k >= slope * i + low, k < slope * i + high), x[i, k], outside),
                    k,
                ),
                name="y",
            )
        ]
    )


@examples(40)
@given(
    dag=bounded_rows(),
    target=st.sampled_from(sorted(TARGETS)),
    choice=st.integers(0, 47),
    seed=st.integers(0, 2**32),
)
def test_bounds_may_contradict_each_other(
    dag: ComputeDAG, target: str, choice: int, seed: int
) -> None:
    inputs = random_inputs(dag, np.random.default_rng(seed))
    (found,) = random_run(dag, inputs, TARGETS[target], choice, seed).values()
    check(found, dag, inputs)
