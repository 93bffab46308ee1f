"""Any program, any sketch, any row: the compiled kernel equals the oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import select
from sketch.lang.functions import all_of, maximum
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.oracle.expected import relative_error
from sketch.oracle.interpret import interpret
from sketch.oracle.reference import reference
from sketch.population.population import mutate, sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from tests.support.compiled import packed_inputs, run_compiled
from tests.support.examples import examples
from tests.support.odd_names import renamed
from tests.support.workloads import WORKLOADS, random_inputs

HOST = host_target(1)
TARGETS = {
    "host, one thread": HOST,
    "host, two threads": HOST.with_threads(2),
    "4 lanes, 16 registers": replace(HOST, vector_bytes=16, registers=16, fma_accumulators=4),
    "8 lanes, 16 registers": replace(HOST, vector_bytes=32, registers=16, fma_accumulators=6),
}


def check(dag: ComputeDAG, target: Target, choice: int, seed: int) -> None:
    """Compare one random row of one sketch with the oracle."""
    rng = np.random.default_rng(seed)
    sketches = generate(dag, target)
    sketch = sketches[choice % len(sketches)]
    row = mutate(sample(sketch, 1, rng), rng).row(0)
    inputs = random_inputs(dag, rng)
    outputs = run_compiled(sketch, row, inputs, target)
    found = reference(dag, inputs, rng)
    shaped = {name: outputs[name].reshape(part.shape) for name, part in found.outputs.items()}
    assert found.check(shaped) < 1e-5, f"{sketch} with {row}"


@examples(40)
@given(
    dag=st.sampled_from(sorted(WORKLOADS)).flatmap(lambda name: renamed(WORKLOADS[name]())),
    target=st.sampled_from(sorted(TARGETS)),
    choice=st.integers(0, 47),
    seed=st.integers(0, 2**32),
)
def test_workloads(dag: ComputeDAG, target: str, choice: int, seed: int) -> None:
    check(dag, TARGETS[target], choice, seed)


@examples(30)
@given(
    m=st.integers(1, 40),
    n=st.integers(1, 70),
    k=st.integers(1, 40),
    constant=st.booleans(),
    target=st.sampled_from(sorted(TARGETS)),
    choice=st.integers(0, 47),
    seed=st.integers(0, 2**32),
    names=st.data(),
)
def test_products_of_any_shape(
    m: int,
    n: int,
    k: int,
    constant: bool,
    target: str,
    choice: int,
    seed: int,
    names: st.DataObject,
) -> None:
    a, b = placeholder((m, k), name="A"), placeholder((k, n), name="B", constant=constant)
    r = reduce_axis(k, "k")
    product = compute((m, n), lambda i, j: reducers.sum(a[i, r] * b[r, j], axis=r), name="C")
    result = compute((m, n), lambda i, j: maximum(product[i, j], 0.0), name="relu")
    check(names.draw(renamed(ComputeDAG([result]))), TARGETS[target], choice, seed)


@examples(40)
@given(
    size=st.tuples(st.integers(1, 19), st.integers(1, 19)),
    channels=st.sampled_from([1, 3, 4, 7]),
    outputs=st.sampled_from([1, 5, 16, 17, 33]),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    padding=st.tuples(*[st.integers(0, 3)] * 4),
    target=st.sampled_from(sorted(TARGETS)),
    choice=st.integers(0, 47),
    seed=st.integers(0, 2**32),
    names=st.data(),
)
def test_convolutions_of_any_shape(
    size: tuple[int, int],
    channels: int,
    outputs: int,
    kernel: tuple[int, int],
    stride: int,
    dilation: int,
    padding: tuple[int, int, int, int],
    target: str,
    choice: int,
    seed: int,
    names: st.DataObject,
) -> None:
    """Written out here, so that the predicates are those of a user's own program."""
    top, left, bottom, right = padding
    reach = [(extent - 1) * dilation + 1 for extent in kernel]
    height = (size[0] + top + bottom - reach[0]) // stride + 1
    width = (size[1] + left + right - reach[1]) // stride + 1
    if height < 1 or width < 1:
        return
    data = placeholder((1, *size, channels), name="data")
    weight = placeholder((*kernel, channels, outputs), name="weight", constant=True)
    kh, kw, ic = (
        reduce_axis(e, name)
        for e, name in zip((*kernel, channels), ("kh", "kw", "ic"), strict=True)
    )

    def body(n: object, h: object, w: object, o: object) -> object:
        y = h * stride + kh * dilation - top  # type: ignore[operator]
        x = w * stride + kw * dilation - left  # type: ignore[operator]
        inside = all_of(y >= 0, y < size[0], x >= 0, x < size[1])
        tap = select(inside, data[n, y, x, ic] * weight[kh, kw, ic, o], 0.0)
        return reducers.sum(tap, axis=(kh, kw, ic))

    conv = compute((1, height, width, outputs), body, name="conv")
    check(names.draw(renamed(ComputeDAG([conv]))), TARGETS[target], choice, seed)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_lowering_equals_the_oracle_before_any_pass(name: str, rng: np.random.Generator) -> None:
    """The nest interpreter sees what lowering made, so that a fault here is not codegen's."""
    target = TARGETS["4 lanes, 16 registers"]
    dag = WORKLOADS[name]()
    if dag.flops > 1e5:
        pytest.skip("too large for an interpreter that runs element by element")
    inputs = random_inputs(dag, rng)
    expected = interpret(dag, inputs)
    sketch = generate(dag, target)[-1]
    row = sample(sketch, 1, rng).row(0)
    outputs = run_nest(lower(sketch, row), packed_inputs(sketch, row, inputs))
    for key, value in expected.items():
        assert relative_error(outputs[key].reshape(np.shape(value)), value) < 1e-5
