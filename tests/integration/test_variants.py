"""Winograd's algorithms as variants: what it applies to, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.functions import maximum
from sketch.lang.prepared import LinearMap
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.nest.loopnest import LoopKind
from sketch.operators.conv import conv, conv2d
from sketch.operators.transposed import conv_transpose
from sketch.oracle.interpret import interpret
from sketch.rules.backend import sketch_backend
from sketch.rules.generate import generate
from sketch.variants import variants_of
from sketch.variants.winograd import winograd
from sketch.variants.winograd_blocks import (
    winograd_four,
    winograd_four_in_lines,
    winograd_six,
)
from tests.support.compiled import random_run
from tests.support.examples import examples
from tests.support.targets import SMALL


def images(height: int = 8, width: int = 8, channels: int = 16, batch: int = 1) -> Tensor:
    return placeholder((batch, height, width, channels), name="x")


def filters(channels: int = 16, outputs: int = 16, size: int = 3) -> Tensor:
    return placeholder((size, size, channels, outputs), name="w", constant=True)


def with_tail(result: Tensor) -> ComputeDAG:
    """Bias, a residual, relu."""
    bias = placeholder((result.shape[-1],), name="b", constant=True)
    other = placeholder(result.shape, name="r")
    total = compute(result.shape, lambda n, h, w, o: result[n, h, w, o] + bias[o], name="biased")
    added = compute(result.shape, lambda n, h, w, o: total[n, h, w, o] + other[n, h, w, o], "sum")
    return ComputeDAG([compute(result.shape, lambda *i: maximum(added[i], 0.0), name="relu")])


def inputs_of(dag: ComputeDAG, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {t.name: rng.standard_normal(t.given_shape).astype(t.dtype) for t in dag.inputs}


ALGORITHMS = {"winograd": winograd, "winograd-4": winograd_four, "winograd-6": winograd_six}
each_algorithm = pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))


def transformed(dag: ComputeDAG, algorithm: str) -> ComputeDAG:
    found = ALGORITHMS[algorithm](dag)
    assert found is not None
    return found


@pytest.mark.parametrize("padding", [0, 1])
def test_lines_are_transformed_where_filters_prevail(padding: int) -> None:
    """A tile of a 2x2 or 4x4 image and 4,096 filters of one channel; 256 of them."""
    side = 4 if padding == 0 else 2
    dag = with_tail(conv2d(images(side, side, 64), filters(64, 64), 1, padding, name="y"))
    other = winograd_four_in_lines(dag)
    assert other is not None
    rows = {t.op.prepared.result_shape[0] for t in other.inputs if t.op.prepared is not None}
    assert rows == {3 * 4}
    inputs = {name: array.astype(np.float64) for name, array in inputs_of(dag, 0).items()}
    (expected,), (found,) = interpret(dag, inputs).values(), interpret(other, inputs).values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    assert winograd_four_in_lines(ComputeDAG([conv2d(images(), filters(), 1, 1)])) is None
    narrow = conv2d(images(1, 4, 64), placeholder((1, 3, 64, 64), name="w", constant=True), 1, 0)
    assert winograd_four(ComputeDAG([narrow])) is not None
    assert winograd_four_in_lines(ComputeDAG([narrow])) is None


SIZES = st.integers(2, 9)
PADDING = st.tuples(*[st.integers(0, 2)] * 4)


@each_algorithm
@examples(40)
@given(SIZES, SIZES, st.integers(1, 2), PADDING, st.booleans(), st.integers(0, 99))
def test_the_variant_computes_the_same(
    algorithm: str,
    height: int,
    width: int,
    batch: int,
    padding: tuple[int, int, int, int],
    tail: bool,
    seed: int,
) -> None:
    result = conv2d(images(height + 1, width + 1, 16, batch), filters(16, 17), 1, padding, name="y")
    dag = with_tail(result) if tail else ComputeDAG([result])
    other = ALGORITHMS[algorithm](dag)
    assume(other is not None)  # six points has no fewer products where tiles are nearly empty
    inputs = {name: array.astype(np.float64) for name, array in inputs_of(dag, seed).items()}
    (expected,), (found,) = interpret(dag, inputs).values(), interpret(other, inputs).values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    assert other.output_names == dag.output_names


@each_algorithm
@pytest.mark.parametrize(("height", "width", "batch", "outputs"), [(7, 6, 1, 24), (13, 5, 2, 17)])
def test_every_sketch_of_the_variant_compiles_to_the_same(
    algorithm: str, height: int, width: int, batch: int, outputs: int
) -> None:
    host = host_target(2)
    data, weight = images(height, width, batch=batch), filters(16, outputs)
    dag = with_tail(conv2d(data, weight, 1, (1, 0, 1, 2), name="y"))
    other, inputs = transformed(dag, algorithm), inputs_of(dag, 0)
    ((name, expected),) = interpret(dag, inputs).items()
    for choice in range(len(generate(other, host))):
        found = random_run(other, inputs, host, choice, seed=choice)[name]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


# By variant: data, weight, padding; the dimensions with one tap, and of three the first, stay.
WINDOWS = [
    (6, (1, 8, 9, 16), (5, 5, 16, 24), 2),
    (6, (1, 4, 7, 9, 16), (3, 3, 3, 16, 32), 1),
    (6, (1, 8, 4, 6, 16), (3, 1, 1, 16, 32), (1, 0, 0)),
    (6, (2, 17, 16), (3, 16, 24), 1),
    (3, (1, 9, 9, 16), (2, 2, 16, 17), (1, 0)),
    (6, (1, 9, 6, 16), (5, 3, 16, 32), (1, 0)),
    ("3-strided", (1, 11, 10, 16), (3, 3, 16, 24), 1),
    ("3-strided", (2, 4, 9, 11, 16), (3, 4, 3, 16, 17), 1),
    ("5-strided", (1, 17, 16, 16), (3, 3, 16, 24), (1, 0)),
    ("5-strided", (1, 12, 15, 16), (4, 4, 16, 24), 1),
    ("6-phases", (1, 15, 16, 3), (7, 7, 3, 17), 3),
    ("7-phases", (2, 19, 14, 3), (7, 7, 3, 16), (3, 2)),
    ("7-phases", (1, 24, 31, 1), (6, 5, 1, 24), 1),
    ("6x7-phases", (1, 13, 22, 3), (7, 6, 3, 16), 1),
    ("6-phases", (1, 4, 15, 17, 3), (3, 7, 7, 3, 16), (1, 3, 3)),
    (4, (2, 3, 4, 7, 16), (3, 3, 3, 16, 24), 1),
    (8, (1, 8, 9, 16), (1, 7, 16, 24), (0, 3)),
    (8, (1, 9, 6, 16), (7, 1, 16, 24), (2, 0)),
    (8, (1, 11, 10, 16), (7, 5, 16, 24), 2),
]


@pytest.mark.parametrize(
    ("points", "data", "weight", "padding"),
    [
        pytest.param(*window, marks=[pytest.mark.slow] * (number % 2))
        for number, window in enumerate(WINDOWS)
    ],
)
def test_windows_of_any_size(
    points: int | str,
    data: tuple[int, ...],
    weight: tuple[int, ...],
    padding: int | tuple[int, ...],
) -> None:
    filters = placeholder(weight, name="w", constant=True)
    stride = 1 if isinstance(points, int) else 2
    image = placeholder(data, name="x")
    same_results(
        ComputeDAG([conv(image, filters, stride, padding, name="y")]), f"winograd-{points}"
    )


# By variant: data, weight, padding, dilation.  The tiles of a residue are whole, ragged, or one.
DILATED = [
    (6, (1, 17, 18, 16), (3, 3, 16, 32), 2, 2),
    (4, (2, 11, 9, 16), (3, 3, 16, 17), (3, 2), (3, 2)),
    (6, (2, 33, 16), (3, 16, 24), 4, 4),
    (4, (1, 10, 5, 16), (3, 3, 16, 24), (2, 1), (2, 1)),
    (4, (1, 3, 9, 13, 16), (3, 3, 3, 16, 16), (1, 2, 4), (1, 2, 4)),
]


@pytest.mark.parametrize(("points", "data", "weight", "padding", "dilation"), DILATED)
def test_dilated_windows(
    points: int,
    data: tuple[int, ...],
    weight: tuple[int, ...],
    padding: int | tuple[int, ...],
    dilation: int | tuple[int, ...],
) -> None:
    """Every residue of the places has tiles of its own."""
    filters = placeholder(weight, name="w", constant=True)
    image = placeholder(data, name="x")
    dag = ComputeDAG([conv(image, filters, 1, padding, dilation, name="y")])
    same_results(dag, f"winograd-{points}")


def test_blocks_of_dilated_windows_hold_all_that_lies_between() -> None:
    dag = with_tail(conv2d(images(28, 28), filters(16, 32), 1, 2, dilation=2, name="y"))
    for sketch in generate(transformed(dag, "winograd-6"), host_target(2)):
        assert [plan.op.name for plan in sketch.program.stages if plan.attach is None] == ["relu"]
        (relu,) = [plan for plan in sketch.program.stages if plan.attach is None]
        unrolled = [x for x in relu.loops() if relu.kinds.get(x) is LoopKind.UNROLLED]
        assert len(unrolled) == 2  # four lines and four columns of one residue
        for axis in (1, 2):
            assert [f for f in relu.splits[axis] if isinstance(f, int)] == [4, 2]


def test_wide_tiles_may_be_computed_ahead() -> None:
    """A cache of 64 KB holds two tiles of 256 channels: then the image's may be an array, too."""
    target = replace(host_target(2), l2_bytes=64 * 1024)
    dag = with_tail(conv2d(images(9, 9, 256), filters(256, 32), 1, 1, name="y"))
    other, inputs = transformed(dag, "winograd-6"), inputs_of(dag, 0)
    ((name, expected),) = interpret(dag, inputs).items()
    found = [
        [plan.op.name for plan in sketch.program.stages if plan.attach is None]
        for sketch in generate(other, target)
    ]
    assert found == [["relu"], ["y.tiles", "relu"]]
    for choice in range(len(found)):
        result = random_run(other, inputs, target, choice, seed=choice)[name]
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def same_results(dag: ComputeDAG, algorithm: str) -> None:
    """A program and a variant of it, interpreted and compiled by every sketch."""
    other = variants_of(dag, sketch_backend(SMALL).algorithms)[algorithm]
    inputs, host = inputs_of(dag, 0), host_target(2)
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    ((name, expected),) = interpret(dag, wide).items()
    largest = np.abs(expected).max()
    np.testing.assert_allclose(interpret(other, wide)[name], expected, rtol=0, atol=1e-11 * largest)
    for choice in range(len(generate(other, host))):
        found = random_run(other, inputs, host, choice, seed=choice)[name]
        found = found.reshape(expected.shape)  # the stage's has an axis for each phase
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize(
    ("points", "extent", "kernel", "padding"), [(3, 8, 4, 1), (6, 5, 4, 2), (4, 7, 6, 2)]
)
def test_phases_of_transposed_convolutions(
    points: int, extent: int, kernel: int, padding: int
) -> None:
    data = placeholder((2, extent, extent + 1, 16), name="x")
    weight = placeholder((kernel, kernel, 16, 24), name="w", constant=True)
    parts = conv_transpose(data, weight, 2, padding, name="y")
    same_results(ComputeDAG(list(parts)), f"winograd-{points}")


def depthwise() -> Tensor:
    weight = placeholder((3, 3, 1, 16), name="w", constant=True)
    return conv2d(images(), weight, 1, 1, groups=16)


def computed_weight() -> Tensor:
    return conv2d(images(), placeholder((3, 3, 16, 16), name="w"), 1, 1)


def doubles() -> Tensor:
    weight = placeholder((3, 3, 16, 16), "float64", "w", constant=True)
    return conv2d(placeholder((1, 8, 8, 16), "float64", "x"), weight, 1, 1)


def three_dimensional() -> Tensor:
    weight = placeholder((3, 3, 3, 16, 16), name="w", constant=True)
    return conv(placeholder((1, 6, 6, 6, 16), name="x"), weight, 1, 1)


def weight_for_each_image() -> Tensor:
    data, weight = (
        placeholder((5, 7, 16), name="x"),
        placeholder((5, 16, 16), name="w", constant=True),
    )
    k = reduce_axis(16, "k")
    return compute(
        (5, 7, 16), lambda n, i, o: reducers.sum(data[n, i, k] * weight[n, k, o], axis=k)
    )


OTHERS: dict[str, Callable[[], Tensor]] = {
    "weight for each image": weight_for_each_image,
    "strided": lambda: conv2d(images(), filters(), 2, 1),
    "dilated": lambda: conv2d(images(), filters(), 1, 2, dilation=2),
    "widely dilated": lambda: conv2d(images(64, 64), filters(), 1, 33, dilation=33),
    "dilated steps": lambda: conv2d(images(9, 9), filters(), 2, 2, dilation=2),
    "five": lambda: conv2d(images(), filters(size=5), 1, 2),
    "one": lambda: conv2d(images(), filters(size=1)),
    "grouped": lambda: conv2d(
        images(), placeholder((3, 3, 8, 16), name="w", constant=True), 1, 1, groups=2
    ),
    "much memory": lambda: conv2d(images(2000, 2000), filters(), 1, 1),
    "few channels": lambda: conv2d(images(channels=3), filters(channels=3), 1, 1),
    "depthwise": depthwise,
    "computed weight": computed_weight,
    "float64": doubles,
    "three dimensions": three_dimensional,
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_other_convolutions_have_no_variant(name: str) -> None:
    found = variants_of(ComputeDAG([OTHERS[name]()]), sketch_backend(SMALL).algorithms)
    assert winograd(ComputeDAG([OTHERS[name]()])) is None
    assert bool(found) == (name in ("dilated", "five", "strided", "three dimensions"))


def test_blocks_hold_all_that_lies_between_the_stages() -> None:
    """No array of the size of the image is written but the result."""
    dag = with_tail(conv2d(images(28, 28), filters(16, 32), 1, 1, name="y"))
    for sketch in generate(transformed(dag, "winograd-6"), host_target(2)):
        assert [plan.op.name for plan in sketch.program.stages if plan.attach is None] == ["relu"]


def test_variants_have_keys_of_their_own() -> None:
    dag = ComputeDAG([conv2d(images(), filters(), 1, 1, name="y")])
    found = variants_of(dag, sketch_backend(SMALL).algorithms)
    assert list(found) == ["winograd-4", "winograd-6"]
    assert len({dag.key, *(other.key for other in found.values())}) == 3


def test_a_linear_map_acts_on_leading_dimensions() -> None:
    change = LinearMap((2, 2, 3), ((1.0, 0.0, 0.0, -1.0), (0.25, 0.25, 0.25, 0.25)))
    array = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    assert change.result_shape == (2, 3)
    expected = [array[0, 0] - array[1, 1], array.mean(axis=(0, 1))]
    np.testing.assert_array_equal(change.apply(array), expected)
    assert change.apply(array).dtype == np.float32
    assert change.key != replace(change, matrix=change.matrix[::-1]).key
