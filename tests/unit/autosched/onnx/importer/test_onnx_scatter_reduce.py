"""Sums and the like over constant places: each row has a list of what is added to it."""

from typing import Any

import numpy as np
import pytest

from autosched import api
from autosched.onnx.importer import from_onnx
from tests.support.onnx_reference import compare, node_model

X = np.random.default_rng(0).standard_normal((7, 4, 5)).astype(np.float32)
PLACES = np.array([3, 0, 3, -1, 5, 3, 0], np.int64)
REDUCTIONS = ("add", "mul", "max", "min")


def updates(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return (3 * np.random.default_rng(1).standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
def test_rows(reduction: str, dtype: str) -> None:
    inputs = {"x": X.astype(dtype), "u": updates((7, 4, 5), dtype)}
    constants = {"i": PLACES[:, None]}
    model = node_model("ScatterND", {"reduction": reduction}, inputs, constants, 18, order="xiu")
    network = compare(model, inputs)
    assert not any(node.op.on_host for node in network.graph.nodes)


def test_points() -> None:
    indices = np.array([[[0, 1], [6, 3]], [[0, 1], [2, -1]]], np.int64)
    inputs = {"x": X, "u": updates((2, 2, 5))}
    attributes = {"reduction": "add"}
    model = node_model("ScatterND", attributes, inputs, {"i": indices}, 18, order="xiu")
    assert not any(node.op.on_host for node in compare(model, inputs).graph.nodes)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_slices(reduction: str, axis: int) -> None:
    shape = [*X.shape]
    shape[axis] = 6
    ones = [1, 1, 1]
    ones[axis] = 6
    places = np.array([1, 0, 1, 3, -1, 1], np.int64).reshape(ones)
    inputs = {"x": X, "u": updates(tuple(shape))}
    constants = {"i": np.broadcast_to(places, shape).copy()}
    attributes = {"axis": axis, "reduction": reduction}
    model = node_model("ScatterElements", attributes, inputs, constants, 18, order="xiu")
    assert not any(node.op.on_host for node in compare(model, inputs).graph.nodes)


def test_infinities_stay_in_their_rows() -> None:
    data = updates((7, 4, 5))
    data[1], data[2] = np.inf, -np.inf
    inputs, constants = {"x": X, "u": data}, {"i": np.array([[0], [1], [2], [4], [4], [4], [4]])}
    compare(
        node_model("ScatterND", {"reduction": "add"}, inputs, constants, 18, order="xiu"), inputs
    )


def _sums(data: np.ndarray, given: np.ndarray, places: np.ndarray, reduction: str) -> np.ndarray:
    inputs = {"x": data, "u": given}
    attributes = {"reduction": reduction}
    model = node_model("ScatterND", attributes, inputs, {"i": places}, 18, order="xiu")
    (found,) = api.compile(from_onnx(model)).run(inputs).values()
    return np.asarray(found)


def test_rows_without_an_update_keep_the_sign_of_zero() -> None:
    data = np.full((4, 2), -0.0, np.float32)
    found = _sums(data, np.ones((2, 2), np.float32), np.array([[1], [3]]), "add")
    assert found.tolist() == [[0, 0], [1, 1]] * 2
    assert np.signbit(found[::2]).all()


@pytest.mark.parametrize(
    ("reduction", "own", "given", "expected"),
    [("add", -60000, 40000, 60000), ("mul", 0.5, 45, 45568)],
)
def test_what_is_given_may_be_more_than_half_floats_hold(
    reduction: str, own: float, given: float, expected: float
) -> None:
    data, updates_ = np.full((4, 2), own, np.float16), np.full((3, 2), given, np.float16)
    found = _sums(data, updates_, np.array([[1], [1], [1]]), reduction)
    assert found.dtype == np.float16
    assert found[1].tolist() == [expected] * 2


@pytest.mark.parametrize("attributes", [{"reduction": "add"}, {}])
def test_places_beyond_the_data_are_left_to_the_host(attributes: dict[str, Any]) -> None:
    inputs = {"x": X, "u": updates((1, 4, 5))}
    constants = {"i": np.array([[7]])}
    model = node_model("ScatterND", attributes, inputs, constants, 18, order="xiu")
    assert [node.op.on_host for node in from_onnx(model).graph.nodes] == [True]


def test_a_row_that_gets_much_more_than_others_needs_no_lists() -> None:
    inputs = {"x": X, "u": updates((200, 4, 5))}
    constants = {"i": np.zeros((200, 1), np.int64)}
    model = node_model("ScatterND", {"reduction": "add"}, inputs, constants, 18, order="xiu")
    graph = compare(model, inputs).graph
    assert [node.op.kind for node in graph.nodes if "gather" in node.op.kind] == []
    assert any(node.op.kind == "scatter" for node in graph.nodes)
