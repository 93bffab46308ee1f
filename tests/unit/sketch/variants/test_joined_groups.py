"""Groups and their channels as one axis: what it applies to, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.functions import maximum
from sketch.lang.prepared import JoinedDimensions
from sketch.lang.reducers import sum as total
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators.conv import conv, conv2d, grouped_conv
from sketch.operators.shared_buffer import merged_channels
from sketch.oracle.interpret import interpret
from sketch.population.population import mutate, sample
from sketch.rules.generate import generate
from sketch.variants.joined_groups import joined_groups
from tests.support.compiled import run_compiled
from tests.support.workloads import random_inputs


def grouped(
    groups: int, inputs: int = 4, outputs: int = 4, stride: int = 1, split: bool = True
) -> Tensor:
    """``[1, h, w, groups, outputs]``; the weight in either form."""
    data = placeholder((1, 5, 4, groups * inputs), name="x")
    shape = (groups, 3, 3, inputs, outputs) if split else (3, 3, inputs, groups * outputs)
    weight = placeholder(shape, name="w", constant=True)
    return grouped_conv(data, weight, stride, 1, 1, groups, name="conv")


def merged(result: Tensor) -> ComputeDAG:
    return ComputeDAG([merged_channels(result, (result.shape[-1], 1), "y")])


def with_tail(result: Tensor) -> ComputeDAG:
    """Bias, a factor a group, relu."""
    size, shape = result.shape[-1], result.shape
    bias = placeholder((shape[-2] * size,), name="b", constant=True)
    scale = placeholder((shape[-2],), name="s")
    biased = compute(shape, lambda n, h, w, g, c: result[n, h, w, g, c] + bias[g * size + c], "sum")
    scaled = compute(shape, lambda n, h, w, g, c: biased[n, h, w, g, c] * scale[g], "scaled")
    return merged(compute(shape, lambda *i: maximum(scaled[i], 0.0), "relu"))


def scaled_by_one_number() -> ComputeDAG:
    """By a constant without dimensions."""
    result, scale = grouped(8), placeholder((), name="s", constant=True)
    return merged(compute(result.shape, lambda *i: result[i] * scale[()], "scaled"))


def one_dimensional() -> Tensor:
    weight = placeholder((8, 3, 4, 4), name="w", constant=True)
    return grouped_conv(placeholder((2, 9, 32), name="x"), weight, 1, 1, 1, 8, name="conv")


JOINED: Mapping[str, Callable[[], ComputeDAG]] = {
    "fours": lambda: merged(grouped(8)),
    "strided": lambda: merged(grouped(8, stride=2)),
    "two inputs, four outputs": lambda: merged(grouped(8, 2, 4)),
    "twos": lambda: merged(grouped(11, 2, 2)),
    "one piece of filters": lambda: merged(grouped(8, split=False)),
    "no store": lambda: ComputeDAG([grouped(8)]),
    "tail": lambda: with_tail(grouped(8)),
    "tail of twos": lambda: with_tail(grouped(11, 2, 2)),
    "tail of one number": scaled_by_one_number,
    "one dimension": lambda: merged(one_dimensional()),
}


def expected_of(dag: ComputeDAG, given: Mapping[str, np.ndarray]) -> np.ndarray:
    """The one output, in float64."""
    inputs = {key: array.astype(np.float64) for key, array in given.items()}
    (values,) = interpret(dag, inputs).values()
    return values


@pytest.mark.parametrize("name", sorted(JOINED))
def test_the_variant_computes_the_same(name: str, rng: np.random.Generator) -> None:
    dag = JOINED[name]()
    other = joined_groups(dag)
    assert other is not None and other.key != dag.key
    assert [(a.name, a.shape) for a in other.output_arrays] == [
        (a.name, a.shape) for a in dag.output_arrays
    ]
    given = random_inputs(dag, rng)
    expected, found = expected_of(dag, given), expected_of(other, given)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("fours", "one piece of filters")),
        "tail of twos",
    ],
)
def test_every_sketch_compiles_to_the_same(name: str, rng: np.random.Generator) -> None:
    """Between guard pages."""
    dag, host = JOINED[name](), host_target(1)
    other = joined_groups(dag)
    assert other is not None
    given = random_inputs(dag, rng)
    expected = expected_of(dag, given)
    for sketch in generate(other, host):
        row = mutate(sample(sketch, 1, rng), rng).row(0)
        (found,) = run_compiled(sketch, row, given, host).values()
        found = found.reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def computed_weight() -> ComputeDAG:
    weight = placeholder((4, 3, 3, 4, 4), name="w")
    return merged(grouped_conv(placeholder((1, 7, 6, 16), name="x"), weight, groups=4))


def groups_apart() -> ComputeDAG:
    """Channels of a group lie as far apart as there are groups."""
    return ComputeDAG([merged_channels(grouped(8), (1, 8), "y")])


def batched_product() -> ComputeDAG:
    a, b = placeholder((3, 8, 5), name="a"), placeholder((3, 5, 4), name="b", constant=True)
    k = reduce_axis(5, "k")
    return ComputeDAG([compute((3, 8, 4), lambda n, i, j: total(a[n, i, k] * b[n, k, j], axis=k))])


OTHERS: Mapping[str, Callable[[], ComputeDAG]] = {
    "many channels": lambda: merged(grouped(4, 8, 8)),
    "no whole groups in a vector": lambda: merged(grouped(5, 3, 3)),
    "more inputs than outputs": lambda: merged(grouped(4, 8, 4)),
    "computed weight": computed_weight,
    "groups apart": groups_apart,
    "batched product": batched_product,
    "dense": lambda: ComputeDAG([
        conv2d(placeholder((1, 7, 6, 4), name="x"),
               placeholder((3, 3, 4, 4), name="w", constant=True), 1, 1)
    ]),
    "depthwise": lambda: ComputeDAG([
        conv(placeholder((1, 9, 8), name="x"),
             placeholder((3, 1, 8), name="w", constant=True), groups=8)
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_other_programs_have_no_variant(name: str) -> None:
    assert joined_groups(OTHERS[name]()) is None


def test_filters_are_joined_ahead_of_time(rng: np.random.Generator) -> None:
    array = rng.standard_normal((5, 3, 2, 4)).astype(np.float32)
    change = JoinedDimensions(array.shape, 0, 3)
    made = change.apply(array)
    assert made.shape == change.result_shape == (3, 2, 20) and made.flags.c_contiguous
    for group in range(5):
        np.testing.assert_array_equal(made[..., 4 * group : 4 * group + 4], array[group])
    assert change.key != JoinedDimensions(array.shape, 1, 3).key
