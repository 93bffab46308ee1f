"""Floats that were bytes once are found, and are bytes to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Value
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


@pytest.mark.parametrize(
    ("rows", "columns", "kind"),
    [(1, 4096, "narrow_matmul"), (1, 4000, "dense"), (40, 4096, "dense")],
    ids=["few rows", "a matrix that caches hold", "many rows"],
)
def test_products_of_few_rows_read_bytes(rows: int, columns: int, kind: str) -> None:
    matrix = levels(-127, 127, (256, columns)).astype(np.float32) * np.float32(0.01)
    builder = GraphBuilder("product")
    data = builder.input(Value("data", (rows, 256), "float32"))
    graph = builder.finish({"y": builder.add(MatMul(), [data, builder.constant("w", matrix)])})
    found = optimize(graph)
    assert [node.op.kind for node in found.nodes] == [kind]
    given = {"data": RNG.standard_normal((rows, 256)).astype(np.float32)}
    expected = given["data"].astype(np.float64) @ matrix.astype(np.float64)
    (values,) = evaluate(found, given).values()
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
