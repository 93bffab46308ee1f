"""Pads that are known when the model runs: positive, negative, of some axes, in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from autosched.host.engines import ReferenceEngine

X = np.arange(20, dtype=np.float32).reshape(4, 5)


def padded(feeds: dict[str, NDArray[Any]], opset: int = 18, **attributes: Any) -> NDArray[Any]:
    inputs = [name if name in feeds else "" for name in ("x", "pads", "value", "axes")]
    while not inputs[-1]:
        inputs.pop()
    node = helper.make_node("Pad", inputs, ["y"], **attributes)
    known = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in feeds]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", known, [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    (result,) = ReferenceEngine(made.SerializeToString()).evaluate(feeds)
    return np.asarray(result)


@pytest.mark.parametrize("opset", [11, 13, 18, 21])
def test_negative_pads_remove_elements(opset: int) -> None:
    found = padded({"x": X, "pads": np.array([-1, 2, 1, -3])}, opset)
    expected = np.zeros((4, 4), np.float32)
    expected[:3, 2:] = X[1:, :2]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_what_is_left_is_continued(mode: str) -> None:
    found = padded({"x": X, "pads": np.array([0, -1, 0, 2])}, 21, mode=mode)
    column = {"edge": [4, 4], "reflect": [3, 2], "wrap": [1, 2]}[mode]
    np.testing.assert_array_equal(found, np.concatenate([X[:, 1:], X[:, column]], axis=1))


def test_some_axes_with_a_value_of_their_own() -> None:
    feeds = {
        "x": X, "pads": np.array([1, -2]), "value": np.float32(7), "axes": np.array([-2]),
    }  # fmt: skip
    expected = np.concatenate([np.full((1, 5), 7, np.float32), X[:2]])
    np.testing.assert_array_equal(padded(feeds), expected)


@pytest.mark.parametrize("name", ["value", "paddings"])
def test_pads_of_old_versions_are_attributes(name: str) -> None:
    opset, pads = (2, "pads") if name == "value" else (1, "paddings")
    found = padded({"x": X}, opset, **{pads: [0, 1, 0, -1], "value": 3.0})
    expected = np.concatenate([np.full((4, 1), 3, np.float32), X[:, :-1]], axis=1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("pads", [[0, 0, 0, -6], [0, -6, 0, 0], [0, -3, 0, -3]])
def test_more_than_there_is_cannot_be_removed(pads: list[int]) -> None:
    with pytest.raises(ValueError, match="remove more than the 5 elements"):
        padded({"x": X, "pads": np.array(pads)})


def test_all_elements_can_be_removed() -> None:
    assert padded({"x": X, "pads": np.array([0, -3, 0, -2])}).shape == (4, 0)


def test_a_wrong_number_of_pads_is_an_error() -> None:
    with pytest.raises(ValueError, match="3 pads for 2 axes"):
        padded({"x": X, "pads": np.array([1, 1, 1])})
