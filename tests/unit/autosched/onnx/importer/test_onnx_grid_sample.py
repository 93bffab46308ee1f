"""The importer of GridSample, against onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.errors import UnsupportedModelError
from autosched.onnx.importer import from_onnx
from tests.support.onnx_reference import compare, node_model

RNG = np.random.default_rng(3)
IMAGE = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
POINTS = RNG.uniform(-1.6, 1.6, (2, 3, 4, 2)).astype(np.float32)  # some of them outside
CORNERS = np.array([[-1, -1], [1, 1], [-1, 1], [0, 0], [0.5, -0.5]], np.float32)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("outside", ["zeros", "border"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_samples_of_an_image(mode: str, outside: str, corners: int) -> None:
    points = POINTS.copy()
    points[:, 0, :] = CORNERS[:4]
    inputs = {"x": IMAGE, "g": points}
    attributes = {"mode": mode, "padding_mode": outside, "align_corners": corners}
    compiled = (mode == "linear") == bool(corners)
    network = compare(node_model("GridSample", attributes, inputs, {}, 20), inputs, compiled)
    assert not any(node.op.on_host for node in network.graph.nodes)


def test_what_lies_outside_is_zero_whatever_is_next_to_it() -> None:
    image = IMAGE.copy()
    image[:, :, 0] = np.inf
    points = np.full((2, 1, 1, 2), -3.0, np.float32)
    inputs = {"x": image, "g": points}
    zeros = np.zeros((2, 3, 1, 1), np.float32)
    compare(node_model("GridSample", {}, inputs, {}, 20), inputs, True, [zeros])


def test_the_mode_of_older_opsets() -> None:
    inputs = {"x": IMAGE, "g": POINTS}
    model = node_model("GridSample", {"mode": "bilinear"}, inputs, {}, 16)
    assert not any(node.op.on_host for node in from_onnx(model).graph.nodes)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_what_onnx_cannot_evaluate_is_refused(mode: str) -> None:
    inputs = {"x": IMAGE, "g": POINTS}
    attributes = {"mode": mode, "padding_mode": "reflection"}
    with pytest.raises(
        UnsupportedModelError, match=f"names of modes before opset 20, such as {mode}"
    ):
        from_onnx(node_model("GridSample", attributes, inputs, {}, 16))


def test_reflections_run_on_the_host() -> None:
    inputs = {"x": IMAGE, "g": POINTS}
    attributes = {"mode": "linear", "padding_mode": "reflection"}
    network = compare(node_model("GridSample", attributes, inputs, {}, 20), inputs)
    assert [node.op.on_host for node in network.graph.nodes] == [True]
