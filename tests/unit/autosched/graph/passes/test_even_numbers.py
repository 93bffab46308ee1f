"""Floats that were bytes once are found, and are bytes to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.matmul import MatMul
from autosched.graph.optimize import optimize
from autosched.graph.passes.even_numbers import bytes_of

RNG = np.random.default_rng(0)


def levels(low: int, high: int, shape: tuple[int, int] = (256, 40)) -> np.ndarray:
    return RNG.integers(low, high + 1, shape)


@pytest.mark.parametrize(("low", "high"), [(-127, 127), (-128, 127), (0, 255), (-200, 50), (0, 1)])
@pytest.mark.parametrize("each", [True, False], ids=["of columns", "of all"])
def test_multiples_are_found(low: int, high: int, each: bool) -> None:
    scale = (RNG.random((1, 40 if each else 1)) * 0.01 + 1e-4).astype(np.float32)
    matrix = levels(low, high).astype(np.float32) * scale
    parts = bytes_of(matrix)
    assert parts is not None
    integers, zero, step = parts
    assert integers.itemsize == 1 and step.dtype == np.float32
    np.testing.assert_array_equal((integers.astype(np.float32) - zero) * step, matrix)


def test_few_large_levels_have_a_step_that_none_of_them_is() -> None:
    """3, 5 and 6 times the scale: it is no element, only a difference of two."""
    matrix = RNG.choice([3.0, 5.0, 6.0, -5.0], (300, 8)).astype(np.float32) * np.float32(0.0137)
    parts = bytes_of(matrix)
    assert parts is not None
    np.testing.assert_array_equal((parts[0].astype(np.float32) - parts[1]) * parts[2], matrix)


def test_columns_of_zeros_and_of_one_number() -> None:
    matrix = levels(-100, 100).astype(np.float32) * np.float32(0.25)
    matrix[:, 3], matrix[:, 5] = 0, -1.7
    parts = bytes_of(matrix)
    assert parts is not None
    np.testing.assert_array_equal((parts[0].astype(np.float32) - parts[1]) * parts[2], matrix)


@pytest.mark.parametrize("kind", ["normal", "one off", "nan", "inf", "wide", "halves"])
def test_others_are_left(kind: str) -> None:
    matrix = levels(-127, 127).astype(np.float32) * np.float32(0.01)
    match kind:
        case "normal":
            matrix = RNG.standard_normal(matrix.shape).astype(np.float32)
        case "one off":
            matrix[7, 11] = np.nextafter(matrix[7, 11], np.float32(9))
        case "nan" | "inf":
            matrix[7, 11] = float(kind)
        case "wide":
            matrix[7, 11] = 400 * np.float32(0.01)
        case "halves":
            matrix = RNG.standard_normal(matrix.shape).astype(np.float16).astype(np.float32)
    assert bytes_of(matrix) is None


@pytest.mark.filterwarnings("error")
def test_numbers_at_the_ends_of_the_range_make_no_noise() -> None:
    least, most = np.float32(1e-45), np.float32(3e38)
    for first, others in ((least, least), (most, least), (most, -most)):
        parts = bytes_of(np.r_[np.full((1, 9), first), np.full((255, 9), others)])
        if parts is not None:
            assert np.isfinite(parts[2]).all()


def test_steps_that_kernels_take_for_zero_are_none() -> None:
    """127 times a denormal number is none."""
    assert bytes_of(levels(1, 127).astype(np.float32) * np.float32(9e-39)) is None


def product(matrix: np.ndarray, rows: int = 1) -> Graph:
    builder = GraphBuilder("product")
    data = builder.input(Value("data", (rows, len(matrix)), "float32"))
    return builder.finish({"y": builder.add(MatMul(), [data, builder.constant("w", matrix)])})


@pytest.mark.parametrize(("low", "high"), [(-127, 127), (0, 255), (-3, 252), (-8, 7), (-2, 1)])
def test_infinite_data_times_numbers_that_were_floats_are_infinite(low: int, high: int) -> None:
    """No zero point and no raised integer times infinity is taken from the sum."""
    whole = levels(low, high, (256, 4096))
    whole[7] = 1
    matrix = whole.astype(np.float32) * np.float32(0.01)
    data = RNG.standard_normal((1, 256)).astype(np.float32)
    data[0, 7] = np.inf
    module = asd.compile(Network("product", optimize(product(matrix))), threads=1, effort="none")
    assert (module.run({"data": data})["y"] == np.inf).all()


@pytest.mark.parametrize("scale", [0.01, 1e-6, 1e30])
def test_columns_of_small_numbers_have_no_errors_of_large_ones(scale: float) -> None:
    """One of zeros, and one of -1 among those down to -255."""
    whole = levels(-255, 0, (256, 4096))
    whole[:, 0], whole[:, 1] = 0, -1
    matrix = whole.astype(np.float32) * np.float32(scale)
    data = (RNG.standard_normal((1, 256)) * 0.1 / scale).astype(np.float32)
    module = asd.compile(Network("product", optimize(product(matrix))), threads=1, effort="none")
    found = module.run({"data": data})["y"]
    each = data.T.astype(np.float64) * matrix
    np.testing.assert_array_less(np.abs(found - each.sum(0))[0], 1e-6 * np.abs(each).sum(0) + 1e-30)
    assert found[0, 0] == 0


@pytest.mark.parametrize(
    ("rows", "columns", "kind"),
    [(1, 4096, "narrow_matmul"), (1, 4000, "dense"), (40, 4096, "dense")],
    ids=["few rows", "a matrix that caches hold", "many rows"],
)
def test_products_of_few_rows_read_bytes(rows: int, columns: int, kind: str) -> None:
    matrix = levels(-127, 127, (256, columns)).astype(np.float32) * np.float32(0.01)
    found = optimize(product(matrix, rows))
    assert [node.op.kind for node in found.nodes] == [kind]
    given = {"data": RNG.standard_normal((rows, 256)).astype(np.float32)}
    expected = given["data"].astype(np.float64) @ matrix.astype(np.float64)
    (values,) = evaluate(found, given).values()
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
