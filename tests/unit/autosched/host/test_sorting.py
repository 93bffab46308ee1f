"""Whole rows in order by a sort of integers: as onnx's reference has them, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from onnx import TensorProto, helper, numpy_helper

from autosched.host.engines import OneNodeEngine, ReferenceEngine, fastest_engine
from autosched.host.sorting import first_in_order

SORTED = ("float32", "float16", "int64", "int32", "int16", "int8", "uint32", "uint16", "uint8")
SPECIAL = (0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 3.0, -3.0)


def _expected(data: np.ndarray, count: int, axis: int, descending: bool) -> tuple:
    """By a stable sort of Python's objects."""
    rows = np.moveaxis(data, axis, -1)
    keys = rows.astype(object)
    order = np.argsort(-keys if descending else keys, axis=-1, kind="stable")[..., :count]
    values = np.take_along_axis(rows, order, -1)
    return np.moveaxis(values, -1, axis), np.moveaxis(order, -1, axis)


def _check(data: np.ndarray, count: int, axis: int, descending: bool) -> None:
    found = first_in_order(data, count, axis, descending)
    assert found is not None
    values, positions = _expected(data, count, axis, descending)
    assert found[0].dtype == data.dtype
    assert found[1].dtype == np.int64
    np.testing.assert_array_equal(found[1], positions)
    np.testing.assert_array_equal(found[0], values)
    if data.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found[0]), np.signbit(values))


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("dtype", SORTED)
def test_order_of_numbers_and_of_equal_ones(
    dtype: str, descending: bool, rng: np.random.Generator
) -> None:
    data = rng.integers(0, 9, (3, 40, 5))
    if dtype[0] in "fi":
        data -= 4
    if dtype[0] == "f":
        data = rng.choice(SPECIAL, data.shape)
    for axis in (0, 1, -1):
        _check(data.astype(dtype), data.shape[axis], axis, descending)
    _check(data.astype(dtype), 7, 1, descending)


@given(
    data=arrays(
        "float32",
        array_shapes(min_dims=1, max_dims=3, max_side=12),
        elements=st.floats(width=32, allow_nan=False),
    ),
    descending=st.booleans(),
)
def test_any_numbers(data: np.ndarray, descending: bool) -> None:
    _check(data, data.shape[-1], -1, descending)


@pytest.mark.parametrize(
    "data",
    [
        np.array([1, np.nan, 2], np.float32),
        np.array([1.0, 2.0]),
        np.array([1, 1 << 40]),
        np.array([1, 2], np.uint64),
        np.array([True, False]),
        np.zeros((3, 0), np.float32),
        np.array(1.0, np.float32),
    ],
    ids=["NaN", "float64", "long", "uint64", "truth", "empty", "no dimensions"],
)
def test_what_other_engines_order(data: np.ndarray) -> None:
    assert first_in_order(data, 2, -1, True) is None


def test_few_of_many_are_left_to_a_heap() -> None:
    data = np.zeros((2, 1000), np.float32)
    assert first_in_order(data, 8, -1, True) is None
    assert first_in_order(data, 1001, -1, True) is None


def _model(count: int | None, outputs: tuple[str, ...], **attributes: int) -> bytes:
    node = helper.make_node("TopK", ["x", "k"], ["values", "positions"], **attributes)
    kinds = {"values": TensorProto.FLOAT, "positions": TensorProto.INT64}
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (6, 50))]
    constants = []
    if count is None:
        inputs.append(helper.make_tensor_value_info("k", TensorProto.INT64, (1,)))
    else:
        constants.append(numpy_helper.from_array(np.array([count]), "k"))
    results = [helper.make_tensor_value_info(name, kinds[name], None) for name in outputs]
    graph = helper.make_graph([node], "g", inputs, results, constants)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize("outputs", [("values", "positions"), ("positions",), ("values",)])
@pytest.mark.parametrize("count", [None, 50, 20])
def test_models_of_one_node(
    count: int | None, outputs: tuple[str, ...], rng: np.random.Generator
) -> None:
    payload = _model(count, outputs, axis=1, largest=0)
    engine = fastest_engine(payload)
    assert isinstance(engine, OneNodeEngine)
    for value in (rng.standard_normal((6, 50)), np.full((6, 50), np.nan)):
        feeds = {"x": value.astype(np.float32)}
        if count is None:
            feeds["k"] = np.array([33])
        exact = ReferenceEngine(payload).evaluate(feeds)
        for found, expected in zip(engine.evaluate(feeds), exact, strict=True):
            np.testing.assert_array_equal(found, expected)
