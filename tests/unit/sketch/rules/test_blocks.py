"""Blocks of tiles: what is computed in them, and what is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import cast
from sketch.lang.functions import maximum
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.operators.conv import conv2d
from sketch.operators.layout import concat
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.variants.winograd_blocks import winograd_four
from sketch.verify import verify
from tests.support.targets import SMALL


def filtered(name: str) -> Tensor:
    """A convolution that has a variant."""
    data = placeholder((1, 6, 6, 16), name=f"{name}.x")
    weight = placeholder((3, 3, 16, 80), name=f"{name}.w", constant=True)
    return conv2d(data, weight, 1, 1, name=name)


def product(columns: int) -> Tensor:
    """A matrix product with 15 rows."""
    k = reduce_axis(16, "k")
    a, b = placeholder((15, 16), name="a"), placeholder((16, columns), name="b", constant=True)
    return compute((15, columns), lambda i, j: reducers.sum(a[i, k] * b[k, j], axis=k), name="p")


def repeated(p: Tensor, rows: int) -> Tensor:
    """Rows of a tensor, each twice."""
    return compute((rows, p.shape[1]), lambda i, j: maximum(p[i // 2, j], 0.0), name="r")


def added() -> ComputeDAG:
    """Two products in one block."""
    y, z = filtered("y"), filtered("z")
    return ComputeDAG([compute(y.shape, lambda *i: maximum(y[i] + z[i], 0.0), name="relu")])


def widened() -> ComputeDAG:
    """Vectors of the result have half as many lanes as those of the products."""
    y = filtered("y")
    return ComputeDAG([compute(y.shape, lambda *i: cast(y[i], "float64"), name="wide")])


def shuffled() -> ComputeDAG:
    """Columns of a product go to other columns of the result."""
    p = product(48)
    shape = (20, 7, 24)
    return ComputeDAG([compute(shape, lambda i, r, j: p[i // 2, r // 2 * 2 + r % 2] + j, name="s")])


def read_twice() -> ComputeDAG:
    """The product is a result, too."""
    p = product(32)
    return ComputeDAG([p, repeated(p, 30)])


def joined() -> ComputeDAG:
    """Blocks write parts of the rows of an array, of which the last is no whole tile."""
    p = product(20)
    data = compute((6, 5, 20), lambda n, i, j: maximum(p[n + i // 2, j], 0.0), name="r")
    return ComputeDAG(list(concat([data, placeholder((6, 5, 8), name="z")], axis=2)))


def in_parts() -> ComputeDAG:
    """Few sums, of many products: their parts are added up for several blocks at a time."""
    k = reduce_axis(68, "k")
    a, b = placeholder((1, 68), name="a"), placeholder((68, 3), name="b", constant=True)
    p = compute((1, 3), lambda i, j: reducers.sum(a[i, k] * b[k, j], axis=k), name="p")
    return ComputeDAG([repeated(p, 2)])


PROGRAMS = [added, widened, shuffled, read_twice, joined, in_parts]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_row_fits(program: Callable[[], ComputeDAG], rng: np.random.Generator) -> None:
    dag = program()
    for sketch in generate(winograd_four(dag) or dag, SMALL):
        population = sample(sketch, 5, rng)
        for row in range(population.count):
            verify(lower(sketch, population.row(row)))


def test_both_products_of_a_sum_are_computed_in_its_blocks() -> None:
    dag = winograd_four(added())
    assert dag is not None
    for sketch in generate(dag, SMALL):
        assert [plan.op.name for plan in sketch.program.stages if plan.attach is None] == ["relu"]
