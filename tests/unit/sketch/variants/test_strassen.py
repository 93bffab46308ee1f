"""Seven products of halves: what it applies to, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from codegen.host import host_target
from codegen.passes.restride import restride
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.functions import exp, maximum
from sketch.lang.prepared import CombinedParts
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.loopnest import row_major
from sketch.operators.conv import conv2d
from sketch.oracle.interpret import interpret
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.variants.strassen import strassen
from sketch.verify.nest import verify
from tests.support.compiled import run_compiled
from tests.support.workloads import random_inputs


def product(
    rows: int = 64,
    terms: int = 256,
    columns: int = 128,
    constant: bool = True,
    dtype: str = "float32",
) -> Tensor:
    """``[rows, columns]``."""
    a = placeholder((rows, terms), dtype, name="a")
    b = placeholder((terms, columns), dtype, name="b", constant=constant)
    k = reduce_axis(terms, "k")
    return compute((rows, columns), lambda i, j: reducers.sum(a[i, k] * b[k, j], axis=k), name="c")


def with_tail() -> ComputeDAG:
    """Bias, a residual, relu; a vector is not a half of the columns."""
    c = product(66, 258, 150)
    bias = placeholder((150,), name="v", constant=True)
    other = placeholder((66, 150), name="r")
    biased = compute(c.shape, lambda i, j: c[i, j] + bias[j], "biased")
    added = compute(c.shape, lambda i, j: biased[i, j] + other[i, j], "added")
    return ComputeDAG([compute(c.shape, lambda i, j: maximum(added[i, j], 0.0), "relu")])


def read_twice() -> ComputeDAG:
    """What has a bias is read by two stages, as that of GELU is."""
    c = product()
    bias = placeholder((128,), name="v", constant=True)
    biased = compute(c.shape, lambda i, j: c[i, j] + bias[j], "biased")
    root = compute(c.shape, lambda i, j: exp(biased[i, j] * 0.01), "root")
    return ComputeDAG([compute(c.shape, lambda i, j: biased[i, j] * root[i, j], "gate")])


def pointwise(size: int = 8, stride: int = 1, batch: int = 1, padding: int = 0) -> ComputeDAG:
    """A convolution with one tap."""
    data = placeholder((batch, size, size, 256), name="x")
    weight = placeholder((1, 1, 256, 128), name="w", constant=True)
    return ComputeDAG([conv2d(data, weight, stride, padding, name="y")])


def transposed() -> ComputeDAG:
    """The columns of the result change places."""
    c = product()
    return ComputeDAG([compute((128, 64), lambda j, i: c[i, j] + 1.0, "t")])


def tied() -> ComputeDAG:
    """The constant is read again."""
    c = product(256, 256, 256)
    weight = c.op.bodies[0].sources[0].rhs.tensor
    return ComputeDAG([compute(c.shape, lambda i, j: c[i, j] + weight[i, j], "sum")])


def two_results() -> ComputeDAG:
    c = product()
    return ComputeDAG([c, compute(c.shape, lambda i, j: maximum(c[i, j], 0.0), "relu")])


MADE: Mapping[str, Callable[[], ComputeDAG]] = {
    "a product": lambda: ComputeDAG([product()]),
    "element-wise stages": with_tail,
    "a gate": read_twice,
    "one tap": pointwise,
    "one tap, stride 2": lambda: pointwise(16, 2),
    "rows in pairs of a batch": lambda: pointwise(7, 1, 2),
}


@pytest.mark.parametrize("name", sorted(MADE))
def test_it_computes_the_same_in_one_nest(name: str, rng: np.random.Generator) -> None:
    dag, target = MADE[name](), host_target(threads=1)
    variant = strassen(dag)
    assert variant is not None
    inputs = random_inputs(dag, rng)
    ((array, expected),) = interpret(dag, inputs).items()
    largest = float(np.abs(expected).max())
    np.testing.assert_allclose(interpret(variant, inputs)[array], expected, atol=1e-5 * largest)
    for sketch in generate(variant, target):
        *_, last = sketch.program.stages
        assert [plan.id for plan in sketch.program.stages if plan.attach is None] == [last.id]
        population = sample(sketch, 2, rng)
        for row in range(population.count):
            found = run_compiled(sketch, population.row(row), inputs, target)[array]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * largest)
            *outer, last_axis = row_major(expected.shape)
            apart = (*(int(stride) * 2 for stride in outer), int(last_axis))
            verify(restride(lower(sketch, population.row(row)), array, apart))


OTHERS: Mapping[str, Callable[[], ComputeDAG]] = {
    "few rows": lambda: ComputeDAG([product(rows=32)]),
    "few terms": lambda: ComputeDAG([product(terms=128)]),
    "few columns": lambda: ComputeDAG([product(columns=64)]),
    "odd rows": lambda: ComputeDAG([product(rows=65)]),
    "odd terms": lambda: ComputeDAG([product(terms=257)]),
    "odd columns": lambda: ComputeDAG([product(columns=129)]),
    "no constant": lambda: ComputeDAG([product(constant=False)]),
    "double precision": lambda: ComputeDAG([product(dtype="float64")]),
    "padding": lambda: pointwise(padding=1),
    "a transpose": transposed,
    "a constant that is read twice": tied,
    "two results": two_results,
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_other_programs_have_no_variant(name: str) -> None:
    assert strassen(OTHERS[name]()) is None


def test_parts_are_combined_ahead_of_time() -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    change = CombinedParts(array.shape, (2, 2), ((1, 0, 0, -1), (0, 1, 0, 0)))
    made = change.apply(array)
    assert made.shape == change.result_shape == (2, 2, 3) and made.dtype == np.float32
    np.testing.assert_array_equal(made[0], array[:2, :3] - array[2:, 3:])
    np.testing.assert_array_equal(made[1], array[:2, 3:])
    assert change.key != CombinedParts(array.shape, (2, 2), ((1, 0, 0, 1), (0, 1, 0, 0))).key
