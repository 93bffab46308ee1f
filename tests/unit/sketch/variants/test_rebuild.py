"""Programs that keep their form: constants of two forms, names that are taken, too many stages."""

from __future__ import annotations

import pytest

from sketch.dag.dag import MOST_STAGES, ComputeDAG
from sketch.lang import reducers
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators.conv import conv2d
from sketch.operators.transposed import conv_transpose
from sketch.rules.backend import sketch_backend
from sketch.variants import variants_of
from tests.support.targets import SMALL


def variants(dag: ComputeDAG) -> list[str]:
    return list(variants_of(dag, sketch_backend(SMALL).algorithms))


def image(name: str = "x") -> Tensor:
    return placeholder((1, 6, 6, 16), name=name)


def weight() -> Tensor:
    return placeholder((3, 3, 16, 16), name="w", constant=True)


def test_phases_of_different_lengths_read_one_weight_in_its_own_form() -> None:
    data = placeholder((1, 5, 5, 16), name="x")
    kernel = placeholder((6, 6, 16, 16), name="w", constant=True)
    phases = conv_transpose(data, kernel, stride=4, name="up")
    assert variants(ComputeDAG(phases)) == []


def test_a_weight_of_one_dimension_is_no_filter() -> None:
    w, k = placeholder((3,), name="w", constant=True), reduce_axis(3)
    result = compute((3, 1, 3), lambda i, j, c: reducers.sum(w[k] * w[i], k), name="y")
    assert variants(ComputeDAG([result])) == []


def test_two_convolutions_that_share_a_weight_stay_as_they_are() -> None:
    w = weight()
    first, second = conv2d(image("x"), w, name="a"), conv2d(image("y"), w, name="b")
    total = compute(first.shape, lambda *i: first[i] + second[i], name="sum")
    assert variants(ComputeDAG([total])) == []


def test_a_weight_that_is_read_by_itself_keeps_its_form() -> None:
    w = weight()
    result = conv2d(image(), w, name="conv")
    total = compute(result.shape, lambda n, h, x, o: result[n, h, x, o] + w[0, 0, 0, o], name="sum")
    assert variants(ComputeDAG([total])) == []


@pytest.mark.parametrize("name", ["conv.rows", "conv.tiles", "conv.products", "conv.columns"])
def test_a_name_that_a_variant_would_use_may_be_taken(name: str) -> None:
    result = conv2d(image(), weight(), name="conv")
    assert variants(ComputeDAG([result]))
    assert variants(ComputeDAG([compute(result.shape, lambda *i: -result[i], name=name)])) == []


@pytest.mark.slow
def test_a_program_that_is_as_long_as_allowed_has_no_longer_variant() -> None:
    result = conv2d(image(), weight(), name="conv")
    for number in range(MOST_STAGES - 1):
        before = result
        result = compute((1, 1, 1, 16), lambda *i, s=before: -s[i], name=f"s{number}")  # type: ignore[misc]
    assert variants(ComputeDAG([result])) == []
