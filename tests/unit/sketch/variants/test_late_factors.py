"""Factors of rows that multiply sums: what has them, and that the variant computes the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Axis, Expr, unary
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators import reduction
from sketch.operators.matmul import matmul
from sketch.operators.softmax import softmax
from sketch.oracle.interpret import interpret
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.variants.late_factors import late_factors
from tests.support.compiled import run_compiled
from tests.support.masked_rows import masked_attention
from tests.support.workloads import random_inputs

ROWS, TERMS, COLUMNS = 6, 20, 7
Element = Callable[[Axis, Axis], Expr]


def data(*shape: int, name: str = "x") -> Tensor:
    return placeholder(shape or (ROWS, TERMS), name=name)


def scaled(element: Element, columns: int = COLUMNS) -> ComputeDAG:
    """Weights, element by element, times values."""
    weights = compute((ROWS, TERMS), element, "weights")
    return ComputeDAG([matmul(weights, data(TERMS, columns, name="v"))])


def of_columns() -> ComputeDAG:
    x, s = data(), data(TERMS, name="s")
    return scaled(lambda i, k: unary("sigmoid", x[i, k]) * s[k])


def unbounded() -> ComputeDAG:
    x, s = data(), data(ROWS, name="s")
    return scaled(lambda i, k: x[i, k] * s[i])


def divided(element: Callable[[Expr], Expr] = lambda x: unary("sigmoid", x)) -> ComputeDAG:
    x, s = data(), data(ROWS, name="s")
    return scaled(lambda i, k: element(x[i, k]) / s[i])


def other_maximum() -> ComputeDAG:
    """Powers relative to the largest element of a column are no weights of a row."""
    x, s = data(), data(ROWS, name="s")
    top = reduction.max(x, 0, True, "top")
    return scaled(lambda i, k: unary("exp", x[i, k] - top[i * 0, k * 0]) * s[i])


def read_twice() -> ComputeDAG:
    weights = softmax(data())
    total = reduction.sum(weights, 1, False, "total")
    return ComputeDAG([matmul(weights, data(TERMS, COLUMNS, name="v")), total])


def an_output() -> ComputeDAG:
    weights = softmax(data())
    return ComputeDAG([matmul(weights, data(TERMS, COLUMNS, name="v")), weights])


def squared() -> ComputeDAG:
    weights, k = softmax(data()), reduce_axis(TERMS)
    return ComputeDAG(
        [compute((ROWS,), lambda i: reducers.sum(weights[i, k] * weights[i, k], axis=k), "y")]
    )


FOUND: Mapping[str, Callable[[], ComputeDAG]] = {
    "softmax": lambda: ComputeDAG([matmul(softmax(data()), data(TERMS, COLUMNS, name="v"))]),
    "masked": lambda: masked_attention(9, 20, offset=3, width=5),
    "divided": divided,
    "negative": lambda: divided(lambda x: -unary("tanh", x)),
    "a number": lambda: divided(lambda x: unary("sigmoid", x) * 0.5),
}
NONE: Mapping[str, Callable[[], ComputeDAG]] = {
    "factors of columns": of_columns,
    "unbounded weights": unbounded,
    "powers of anything": lambda: divided(lambda x: unary("exp", x)),
    "another maximum": other_maximum,
    "weights read elsewhere": read_twice,
    "weights that are an output": an_output,
    "weights times themselves": squared,
    "longer rows of results": lambda: ComputeDAG(
        [matmul(softmax(data()), data(TERMS, TERMS + 1, name="v"))]
    ),
}


@pytest.mark.parametrize("name", sorted(FOUND))
def test_the_variant_computes_the_same(name: str, rng: np.random.Generator) -> None:
    dag = FOUND[name]()
    other = late_factors(dag)
    assert other is not None and other.key != dag.key
    assert len(other.stages) <= len(dag.stages) + 1
    given = random_inputs(dag, rng)
    expected, found = interpret(dag, given), interpret(other, given)
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(NONE))
def test_other_programs_have_no_such_variant(name: str) -> None:
    assert late_factors(NONE[name]()) is None


@pytest.mark.parametrize("offset", [-2, 5])
def test_kernels_of_rows_that_see_little_or_nothing(offset: int, rng: np.random.Generator) -> None:
    """Rows without a term are NaN in both, whatever loops end where."""
    dag, target = masked_attention(80, 40, offset=offset), host_target(threads=1)
    other = late_factors(dag)
    assert other is not None
    given = random_inputs(dag, rng)
    expected = interpret(dag, given)["result"]
    assert np.isnan(expected).any() == (offset < 0)
    sketches = generate(other, target)
    for sketch in sketches[:: max(1, len(sketches) // 3)]:
        found = run_compiled(sketch, sample(sketch, 1, rng).row(0), given, target)["result"]
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=0, atol=1e-5)


def test_stages_that_are_read_twice_are_looked_at_once() -> None:
    """Or this does not end."""
    x = placeholder((8, 16), name="x")
    power = compute((8, 16), lambda i, k: unary("sigmoid", x[i, k]), name="t0")
    for number in range(40):
        power = squared(power, number)
    scale, values = placeholder((8,), name="s"), placeholder((16, 8), name="v")
    weights = compute((8, 16), lambda i, k: power[i, k] * scale[i], name="weights")
    k = reduce_axis(16, "k")
    y = compute((8, 8), lambda i, j: reducers.sum(weights[i, k] * values[k, j], axis=k), name="y")
    late_factors(ComputeDAG([y]))


def squared(x: Tensor, number: int) -> Tensor:
    return compute(x.shape, lambda i, k: x[i, k] * x[i, k], name=f"square{number}")
