"""Programs are equal for all inputs, or the first element that differs is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang.expr import Expr, cast, select
from sketch.lang.functions import exp, maximum
from sketch.lang.reducers import max as largest
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators.conv import conv, grouped_conv
from sketch.variants import filtering, strassen, winograd, winograd_blocks, winograd_phases
from sketch.variants.implicit_gemm import implicit_gemm
from sketch.variants.joined_columns import joined_columns
from sketch.variants.joined_groups import joined_groups
from sketch.verify.symbolic import first_difference


def convolution(
    size: tuple[int, ...], taps: tuple[int, ...], padding: int = 0, filters: int = 1
) -> ComputeDAG:
    """Of an image [1, *size, 2]."""
    data = placeholder((1, *size, 2), name="x")
    weight = placeholder((*taps, 2, filters), name="w", constant=True)
    return ComputeDAG([conv(data, weight, padding=padding, name="y")])


def groups(count: int, channels: int) -> ComputeDAG:
    """A convolution of a row in so many groups, each of ``channels``."""
    data = placeholder((1, 3, count * channels), name="x")
    weight = placeholder((count, 2, channels, channels), name="w", constant=True)
    return ComputeDAG([grouped_conv(data, weight, padding=1, groups=count, name="y")])


@pytest.fixture
def few_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variants are made where they would not pay."""
    monkeypatch.setattr(winograd, "_LEAST_CHANNELS", 1)
    monkeypatch.setattr(filtering, "LEAST_CHANNELS", 1)
    monkeypatch.setattr(winograd, "_LEAST_TERMS", 1)
    for name in ("_LEAST_TERMS", "_LEAST_COLUMNS", "_LEAST_ROWS"):
        monkeypatch.setattr(strassen, name, 1)


@pytest.mark.parametrize(
    ("derive", "dag"),
    [
        (winograd_blocks.winograd_four, convolution((4, 4), (3, 3))),
        (winograd_blocks.winograd_four, convolution((4,), (3,), 1)),
        (winograd_blocks.winograd_six, convolution((3, 4), (3, 3), 1)),
        pytest.param(
            *(winograd_blocks.winograd_six, convolution((2, 5, 5), (2, 3, 3))),
            marks=pytest.mark.slow,
        ),
        (winograd_blocks.winograd_six, convolution((6,), (3,))),
        (winograd_blocks.winograd_three, convolution((3, 4), (2, 2))),
        pytest.param(
            *(winograd_blocks.winograd_eight, convolution((5, 8), (5, 5))), marks=pytest.mark.slow
        ),
        (winograd_blocks.winograd_eight, convolution((8,), (5,))),
        (winograd.winograd, convolution((3, 3), (3, 3), 1)),
        (winograd.winograd_in_parts, convolution((4, 4), (3, 3))),
        (implicit_gemm, convolution((3, 5), (3, 3), 1, 2)),
        (joined_groups, groups(3, 2)),
        (joined_columns, convolution((3, 4), (3, 3), 1)),
        (joined_columns, convolution((8,), (2,))),
        (strassen.strassen, convolution((4, 3), (1, 1), 0, 4)),
    ],
)
def test_variants_are_the_direct_convolution(
    derive: Callable[[ComputeDAG], ComputeDAG | None], dag: ComputeDAG, few_channels: None
) -> None:
    variant = derive(dag)
    assert variant is not None and variant.key != dag.key
    assert first_difference(dag, variant) is None


@pytest.mark.parametrize(
    ("derive", "size", "taps"),
    [
        (winograd_phases.winograd_phases_six, (9, 10), (5, 5)),
        (winograd_phases.winograd_phases_six_by_seven, (9, 11), (5, 4)),
        pytest.param(
            *(winograd_phases.winograd_phases_seven, (11, 9), (7, 6)), marks=pytest.mark.slow
        ),
    ],
)
def test_phases_are_the_direct_convolution(
    derive: Callable[[ComputeDAG], ComputeDAG | None],
    size: tuple[int, ...],
    taps: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(winograd_phases, "LEAST_CHANNELS", 2)
    monkeypatch.setattr(winograd_phases, "_TRANSFORM", 0)
    data = placeholder((1, *size, 1), name="x")
    weight = placeholder((*taps, 1, 2), name="w", constant=True)
    dag = ComputeDAG([conv(data, weight, 2, 1, name="y")])
    variant = derive(dag)
    assert variant is not None and variant.key != dag.key
    assert first_difference(dag, variant) is None


def scaled(factor: float, shift: float = 0.0) -> ComputeDAG:
    x = placeholder((2, 2), name="x")
    return ComputeDAG([compute((2, 2), lambda i, j: x[i, j] * factor + shift, name="y")])


def test_the_first_element_that_differs_is_named() -> None:
    x = placeholder((2, 2), name="x")
    other = compute(
        (2, 2), lambda i, j: x[i, j] * select(i + j < 2, 0.5, 0.25), name="z"
    )  # fmt: skip
    found = first_difference(scaled(0.5), ComputeDAG([other]))
    assert found is not None and (found.output, found.index) == ("y", (1, 1))
    assert str(found) == "y[1, 1] differs by 1/4*(x[1, 1])"


def test_literals_stand_for_what_they_are_rounded_from() -> None:
    x = placeholder((2, 2), name="x")
    thirds = compute((2, 2), lambda i, j: x[i, j] * (1 / 7) + x[i, j] * (4 / 21), name="y")
    assert first_difference(scaled(1 / 3), ComputeDAG([thirds])) is None
    assert first_difference(scaled(1 / 3 + 1e-9), ComputeDAG([thirds])) is not None
    divided = compute((2, 2), lambda i, j: x[i, j] / 3.0, name="y")
    assert first_difference(scaled(1 / 3), ComputeDAG([divided])) is None


def test_numbers_may_depend_on_the_place() -> None:
    x, k = placeholder((2, 2), name="x"), reduce_axis(2)
    moved = compute((2, 2), lambda i, j: x[i, j] * 0.5 + cast(i * 0 + 1, "float32"), name="y")
    assert first_difference(scaled(0.5, 1.0), ComputeDAG([moved])) is None
    total = compute((2,), lambda i: largest(x[i, k], axis=k), name="y")
    with pytest.raises(ExpressionError, match="max is no sum"):
        first_difference(ComputeDAG([total]), ComputeDAG([total]))


@pytest.mark.parametrize(
    ("element", "said"),
    [
        (lambda x: maximum(x, 0.0), "'max'"),
        (lambda x: exp(x), "'exp'"),
        (lambda x: 1.0 / x, "'div'"),
        (lambda x: x * float("inf"), "the literal inf"),
        (lambda x: select(x > 0.0, x, 0.0), "depends on x"),
        (lambda x: cast(cast(x, "int32"), "float32"), "depends on x"),
    ],
)
def test_what_is_no_polynomial_is_said(element: Callable[[Expr], Expr], said: str) -> None:
    x = placeholder((2,), name="x")
    dag = ComputeDAG([compute((2,), lambda i: element(x[i]), name="y")])
    with pytest.raises(ExpressionError, match=f"y is no polynomial of the inputs: .*{said}"):
        first_difference(dag, dag)


def copy(x: Tensor) -> ComputeDAG:
    return ComputeDAG([compute(x.shape, lambda *i: x[i], name="y")])


def test_what_cannot_be_compared_is_said() -> None:
    one, two = copy(placeholder((2,), name="x")), copy(placeholder((3,), name="x"))
    with pytest.raises(ExpressionError, match="inputs 'x' of two shapes"):
        first_difference(one, two)
    with pytest.raises(ExpressionError, match="outputs of different shapes"):
        first_difference(one, copy(placeholder((3,), name="z")))
    with pytest.raises(ExpressionError, match="at most 2048"):
        first_difference(*[copy(placeholder((64, 64), name="x"))] * 2)
    with pytest.raises(ExpressionError, match="int32, which wraps around"):
        first_difference(*[copy(placeholder((2,), "int32", name="x"))] * 2)
