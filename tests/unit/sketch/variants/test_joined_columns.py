"""Several results of a line at once: what it applies to, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.functions import maximum, tanh
from sketch.lang.prepared import MovedCopies
from sketch.lang.tensor import Tensor, compute, placeholder
from sketch.operators.conv import conv
from sketch.operators.transposed import conv_transpose
from sketch.oracle.interpret import interpret
from sketch.population.population import mutate, sample
from sketch.rules.generate import generate
from sketch.variants.joined_columns import joined_columns
from tests.support.compiled import run_compiled
from tests.support.workloads import random_inputs


def convolution(size: tuple[int, ...], filters: int, taps: int = 3, **how: Any) -> Tensor:
    data = placeholder((1, *size, 5), name="x", dtype=how.pop("dtype", "float32"))
    shape = (*(taps for _ in size), 5, filters)
    weight = placeholder(shape, name="w", dtype=data.dtype, constant=True)
    return conv(data, weight, **how, name="conv")


def transposed(size: tuple[int, ...], filters: int, taps: int = 4, padding: int = 1) -> ComputeDAG:
    data = placeholder((2, *size, 5), name="x")
    weight = placeholder((*(taps for _ in size), 5, filters), name="w", constant=True)
    parts = conv_transpose(data, weight, 2, padding, name="up")
    return ComputeDAG(parts)


def with_tail(result: Tensor) -> ComputeDAG:
    """Bias, another image, a number for each column, relu."""
    shape = result.shape
    bias = placeholder((shape[-1],), name="b", constant=True)
    image, column = placeholder(shape, name="r"), placeholder((shape[-2],), name="s")
    biased = compute(shape, lambda *i: result[i] + bias[i[-1]], "biased")
    added = compute(shape, lambda *i: biased[i] + image[i] * column[i[-2]], "added")
    return ComputeDAG([compute(shape, lambda *i: maximum(tanh(added[i]), 0.0), "relu")])


def dag_of(result: Tensor) -> ComputeDAG:
    return ComputeDAG([result])


JOINED: Mapping[str, Callable[[], ComputeDAG]] = {
    "three filters": lambda: dag_of(convolution((6, 12), 3, padding=1)),
    "one filter": lambda: dag_of(convolution((4, 16), 1, padding=1)),
    "eight filters": lambda: dag_of(convolution((3, 6), 8)),
    "odd line": lambda: dag_of(convolution((3, 9), 2, padding=1)),
    "strided": lambda: dag_of(convolution((7, 24), 2, taps=5, stride=2, padding=2)),
    "one dimension": lambda: dag_of(convolution((20,), 4, padding=1)),
    "three dimensions": lambda: dag_of(convolution((3, 4, 6), 2, padding=1)),
    "transposed": lambda: transposed((4, 4), 3),
    "transposed line": lambda: transposed((6,), 2),
    "tail": lambda: with_tail(convolution((5, 8), 3, padding=1)),
}


def expected_of(dag: ComputeDAG, given: Mapping[str, np.ndarray]) -> np.ndarray:
    """The one output, in float64."""
    inputs = {key: array.astype(np.float64) for key, array in given.items()}
    (values,) = interpret(dag, inputs).values()
    return values


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("name", sorted(JOINED))
def test_the_variant_computes_the_same(name: str, lanes: int, rng: np.random.Generator) -> None:
    dag = JOINED[name]()
    other = joined_columns(dag, lanes)
    assert other is not None and other.key != dag.key
    assert [(a.name, a.shape) for a in other.output_arrays] == [
        (a.name, a.shape) for a in dag.output_arrays
    ]
    given = random_inputs(dag, rng)
    expected, found = expected_of(dag, given), expected_of(other, given)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["strided", "tail", "transposed"])
def test_every_sketch_compiles_to_the_same(name: str, rng: np.random.Generator) -> None:
    """Between guard pages."""
    dag, host = JOINED[name](), host_target(1)
    other = joined_columns(dag)
    assert other is not None
    given = random_inputs(dag, rng)
    expected = expected_of(dag, given)
    for sketch in generate(other, host):
        row = mutate(sample(sketch, 1, rng), rng).row(0)
        (found,) = run_compiled(sketch, row, given, host).values()
        found = found.reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def joined_count(dag: ComputeDAG, lanes: int) -> int:
    """Neighbours that are joined on so many lanes."""
    other = joined_columns(dag, lanes)
    assert other is not None
    filters = dag.stages[-1].axes[-1].extent
    return max(stage.axes[-1].extent for stage in other.stages) // filters


@pytest.mark.parametrize(
    ("filters", "counts"),
    # a vector of sixteen lanes, of eight, of four: as full as they become
    [(1, (12, 6, 4)), (2, (6, 4, 2)), (3, (4, 2, 2)), (4, (4, 2, 2)), (8, (2, 2, 2))],
)
def test_vectors_of_the_machine_are_filled(filters: int, counts: tuple[int, ...]) -> None:
    dag = dag_of(convolution((4, 12), filters, padding=1))
    assert tuple(joined_count(dag, lanes) for lanes in (16, 8, 4)) == counts


def computed_filters() -> ComputeDAG:
    weight = placeholder((3, 3, 5, 3), name="w")
    return dag_of(conv(placeholder((1, 6, 12, 5), name="x"), weight, padding=1))


def summed_lines() -> ComputeDAG:
    """What follows reads the neighbour, too."""
    result = convolution((4, 8), 3)
    shape = (1, 2, 5, 3)
    return dag_of(compute(shape, lambda n, h, w, c: result[n, h, w, c] + result[n, h, w + 1, c]))


OTHERS: Mapping[str, Callable[[], ComputeDAG]] = {
    "many filters": lambda: dag_of(convolution((4, 12), 9, padding=1)),
    "one tap": lambda: dag_of(convolution((4, 12), 3, taps=1)),
    "no tap in common": lambda: dag_of(convolution((6, 36), 3, stride=3)),
    "a line of a prime": lambda: dag_of(convolution((4, 19), 3, padding=1)),
    "doubles": lambda: dag_of(convolution((4, 12), 3, padding=1, dtype="float64")),
    "computed filters": computed_filters,
    "summed lines": summed_lines,
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_other_programs_have_no_variant(name: str) -> None:
    assert all(joined_columns(OTHERS[name](), lanes) is None for lanes in (4, 8, 16))


def test_copies_are_moved_ahead_of_time(rng: np.random.Generator) -> None:
    array = rng.standard_normal((2, 3, 5, 4)).astype(np.float32)
    array[0, 0, 0, 0] = np.inf
    sources = ((0, -1), (1, 0), (2, 1), (-1, 2))
    change = MovedCopies(array.shape, 1, sources)
    made = change.apply(array)
    assert made.shape == change.result_shape == (2, 4, 5, 8) and made.flags.c_contiguous
    np.testing.assert_array_equal(made[:, :3, :, :4], array)
    np.testing.assert_array_equal(made[:, 1:, :, 4:], array)
    assert not made[:, 3, :, :4].any() and not made[:, 0, :, 4:].any()
    assert change.key != MovedCopies(array.shape, 1, sources[::-1]).key
