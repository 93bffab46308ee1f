"""Convolutions of an image with zeros around it: what has them, and that they compute the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from codegen.cuda.build import emit, prepare
from costmodel.extract import draft_seconds
from sketch.dag.dag import ComputeDAG
from sketch.lang.functions import maximum
from sketch.lang.tensor import Tensor, compute, placeholder
from sketch.lower import lower
from sketch.nest.walk import stores
from sketch.operators.conv import conv2d
from sketch.operators.matmul import matmul
from sketch.operators.transposed import conv_transpose
from sketch.oracle.interpret import interpret
from sketch.population.population import Population
from sketch.population.written_out_gpu import taps_are_tested
from sketch.rules.generate import generate
from sketch.variants.zero_padded import zero_padded
from tests.support.cuda_programs import GPU, feasible_rows
from tests.support.workloads import conv2d_relu, random_inputs


def image(batch: int = 1, size: int = 7, channels: int = 3) -> Tensor:
    return placeholder((batch, size, size, channels), name="x")


def filters(size: int = 3, channels: int = 3, outputs: int = 5) -> Tensor:
    return placeholder((size, size, channels, outputs), name="w", constant=True)


def after_a_stage() -> Tensor:
    data = image()
    positive = compute(data.shape, lambda *i: maximum(data[i], 0.0), name="positive")
    return conv2d(positive, filters(), 1, 1)


PADDED: Mapping[str, Callable[[], Tensor]] = {
    "padded": lambda: conv2d(image(), filters(), 1, 1),
    "strided": lambda: conv2d(image(2, 9), filters(), 2, (1, 0, 2, 1)),
    "dilated": lambda: conv2d(image(3, 9), filters(), 1, 2, dilation=2),
    "one side": lambda: conv2d(image(1, 8), filters(2), 1, (0, 0, 1, 0)),
    "transposed": lambda: conv_transpose(image(1, 4), filters(4), 2, 1)[0],
    "after a stage": after_a_stage,
}


@pytest.mark.parametrize("name", sorted(PADDED))
def test_the_variant_computes_the_same(name: str, rng: np.random.Generator) -> None:
    dag = ComputeDAG([PADDED[name]()])
    other = zero_padded(dag)
    assert other is not None and other.key != dag.key
    given = random_inputs(dag, rng)
    expected, found = interpret(dag, given), interpret(other, given)
    for key, values in expected.items():
        np.testing.assert_array_equal(found[key].reshape(values.shape), values)


OTHERS: Mapping[str, Callable[[], Tensor]] = {
    "matmul": lambda: matmul(placeholder((7, 5), name="a"), placeholder((5, 3), name="b")),
    "no padding": lambda: conv2d(image(), filters()),
    "depthwise": lambda: conv2d(image(), placeholder((3, 3, 1, 3), name="w"), 1, 1, groups=3),
    "two": lambda: conv2d(
        conv2d(image(), filters(outputs=3), 1, 1, name="y"),
        placeholder((3, 3, 3, 4), name="v", constant=True), 1, 1, name="z",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_other_programs_have_no_variant(name: str) -> None:
    assert zero_padded(ComputeDAG([OTHERS[name]()])) is None


def best(dag: ComputeDAG, rng: np.random.Generator) -> tuple[float, Population]:
    """Of a few rows of each sketch: the draft's favourite, and what it takes."""
    found = []
    for sketch in generate(dag, GPU):
        rows = feasible_rows(sketch, 8, rng)
        seconds = draft_seconds(rows)
        place = int(np.argmin(seconds))
        found.append((float(seconds[place]), rows.take(np.array([place]))))
    return min(found, key=lambda pair: pair[0])


def test_its_kernels_test_no_term_and_the_draft_knows_what_that_saves(
    rng: np.random.Generator,
) -> None:
    dag = conv2d_relu(28, 32, 32)
    other = zero_padded(dag)
    assert other is not None
    (slow, direct), (fast, framed) = best(dag, rng), best(other, rng)
    assert fast < 0.7 * slow
    for population, tests in ((direct, True), (framed, False)):
        nest = prepare(lower(population.sketch, population.row(0)))
        found = [
            taps_are_tested(store, [loop.var for loop in loops if loop.axis_kind == "reduce"])
            for store, loops in stores(nest.roots)
        ]
        assert any(found) is tests
    nest = lower(framed.sketch, framed.row(0))
    assert " ? data_cache[" not in emit(nest, GPU).text
