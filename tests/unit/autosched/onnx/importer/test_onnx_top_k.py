"""TopK in kernels: the order of equal elements and of NaN, every dimension, every opset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import autosched as asd

onnx = pytest.importorskip("onnx")

from autosched.graph.evaluate import evaluate  # noqa: E402
from autosched.graph.top_elements import MOST_ELEMENTS  # noqa: E402
from tests.support.onnx_cases import node_model  # noqa: E402

Array = NDArray[Any]


def _expected(data: Array, count: int, axis: int, largest: bool) -> tuple[Array, Array]:
    """A sort of each row by a key; NaN is larger than all numbers."""
    sign = -1 if largest else 1

    def key(row: list[Any], place: int) -> tuple[int, Any, int]:
        nan = row[place] != row[place]
        return sign * nan, 0 if nan else sign * row[place], place

    def first(row: Array) -> Array:
        numbers = row.tolist()
        return np.array(sorted(range(len(numbers)), key=lambda n: key(numbers, n))[:count])

    places = np.apply_along_axis(first, axis, data)
    return np.take_along_axis(data, places, axis), places


def _data(shape: tuple[int, ...], dtype: str) -> Array:
    """Few different numbers, so that many are equal, some NaN and infinite."""
    rng = np.random.default_rng(sum(shape))
    data: Array = rng.integers(-3, 4, shape).astype(dtype)
    if dtype.startswith("float"):
        data[rng.random(shape) < 0.2] = np.nan
        data[rng.random(shape) < 0.1] = np.inf
        data[data == 2] = -0.0
    return data


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8"])
@pytest.mark.parametrize(
    ("shape", "count", "axis"),
    [
        ((5, 7), 3, -1),
        ((4, 6, 3), 6, 1),
        ((9,), 1, 0),
        ((MOST_ELEMENTS, 2), 5, 0),
        ((1, 300), 300, 1),
    ],
)
def test_top_elements(
    shape: tuple[int, ...], count: int, axis: int, dtype: str, largest: bool
) -> None:
    data = _data(shape, dtype)
    model = node_model(
        "TopK", [data], [np.array([count])], 17, outputs=2, axis=axis, largest=int(largest)
    )
    network = asd.from_onnx(model)
    assert not any(node.op.on_host for node in network.graph)
    found = evaluate(network.graph, {"x0": data}).values()
    for ours, theirs in zip(found, _expected(data, count, axis, largest), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_kernels_of_top_elements() -> None:
    data = _data((6, 32), "float32")
    model = node_model("TopK", [data], [np.array([4])], 17, outputs=2)
    module = asd.compile(asd.from_onnx(model), effort="none", threads=1)
    found = module.run({"x0": data}).values()
    for ours, theirs in zip(found, _expected(data, 4, -1, True), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_old_opset_has_an_attribute() -> None:
    data = _data((3, 5), "float32")
    model = node_model("TopK", [data], opset=9, outputs=2, k=2)
    network = asd.from_onnx(model)
    found = list(evaluate(network.graph, {"x0": data}).values())
    np.testing.assert_array_equal(found[1], _expected(data, 2, -1, True)[1])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
@pytest.mark.parametrize(
    ("shape", "count", "axis"),
    [
        ((3, 600), 8, -1),
        ((2, 2, 1021), 20, -1),
        ((540, 2), 3, 0),
        ((1, 1500), 1, 1),
        ((70, 200), 25, 1),
    ],
)
def test_few_elements_of_long_rows_are_found_one_after_the_other(
    shape: tuple[int, ...], count: int, axis: int, dtype: str, largest: bool
) -> None:
    data = _data(shape, dtype)
    model = node_model(
        "TopK", [data], [np.array([count])], 17, outputs=2, axis=axis, largest=int(largest)
    )
    module = asd.compile(asd.from_onnx(model), effort="none", threads=1)
    assert "host" not in str(module.summary())
    found = module.run({"x0": data}).values()
    for ours, theirs in zip(found, _expected(data, count, axis, largest), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("largest", [True, False])
def test_only_infinities_and_nan(largest: bool) -> None:
    data = np.full((2, 1000), -np.inf, np.float32)
    data[0, 500:] = np.inf
    data[1, ::7] = np.nan
    attributes = {"largest": int(largest)}
    model = node_model("TopK", [data], [np.array([120])], 17, outputs=2, **attributes)
    found = asd.compile(asd.from_onnx(model), effort="none", threads=1).run({"x0": data})
    for ours, theirs in zip(found.values(), _expected(data, 120, -1, largest), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("shape", "count", "dtype"),
    [
        ((2, 600), 2, "float64"),
        ((2, 600), 2, "int64"),
        ((2, 600), 76, "float32"),
        ((2, 8000), 513, "float32"),
        ((300, MOST_ELEMENTS), 17, "float32"),
    ],
)
def test_other_elements_are_left_to_the_host(
    shape: tuple[int, ...], count: int, dtype: str
) -> None:
    model = node_model("TopK", [_data(shape, dtype)], [np.array([count])], 17, outputs=2)
    assert any(node.op.on_host for node in asd.from_onnx(model).graph)
