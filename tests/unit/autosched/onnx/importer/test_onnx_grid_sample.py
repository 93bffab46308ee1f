"""The importer of GridSample, against onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx_reference import compare, node_model
from tests.support.onnx_sessions import reference_session

RNG = np.random.default_rng(3)
IMAGE = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
POINTS = RNG.uniform(-1.6, 1.6, (2, 3, 4, 2)).astype(np.float32)  # some of them outside
CORNERS = np.array([[-1, -1], [1, 1], [-1, 1], [0, 0], [0.5, -0.5]], np.float32)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("outside", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_samples_of_an_image(mode: str, outside: str, corners: int) -> None:
    points = 2 * POINTS  # some of them several images away
    points[:, 0, :] = CORNERS[:4]
    inputs = {"x": IMAGE, "g": points}
    attributes = {"mode": mode, "padding_mode": outside, "align_corners": corners}
    compiled = (mode == "linear") == bool(corners)
    model = node_model("GridSample", attributes, inputs, {}, 20)
    expected = None
    if (mode, outside) == ("cubic", "border"):  # onnx's reference takes the point to the border
        expected = reference_session(model.SerializeToString()).run(None, inputs)
    network = compare(model, inputs, compiled, expected)
    assert not any(node.op.on_host for node in network.graph.nodes)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_the_reflections_of_one_pixel_are_that_pixel(mode: str) -> None:
    inputs = {"x": np.full((2, 1, 1, 1), 3, np.float32), "g": POINTS}
    attributes = {"mode": mode, "padding_mode": "reflection", "align_corners": 1}
    model = node_model("GridSample", attributes, inputs, {}, 20)
    compare(model, inputs, expected=[np.full((2, 1, 3, 4), 3, np.float32)])


def test_what_lies_outside_is_zero_whatever_is_next_to_it() -> None:
    image = IMAGE.copy()
    image[:, :, 0] = np.inf
    points = np.full((2, 1, 1, 2), -3.0, np.float32)
    inputs = {"x": image, "g": points}
    zeros = np.zeros((2, 3, 1, 1), np.float32)
    compare(node_model("GridSample", {}, inputs, {}, 20), inputs, True, [zeros])


@pytest.mark.parametrize("mode", [None, "bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("outside", ["zeros", "reflection"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_modes_of_older_opsets(mode: str | None, outside: str, dtype: str) -> None:
    """In kernels, and on the host, where onnx knows the new names."""
    attributes = {"padding_mode": outside, **({"mode": mode} if mode else {})}
    inputs = {"x": IMAGE, "g": POINTS}
    single = node_model("GridSample", attributes, inputs, {}, 16)
    (expected,) = reference_session(single.SerializeToString()).run(None, inputs)
    inputs = {name: array.astype(dtype) for name, array in inputs.items()}
    model = node_model("GridSample", attributes, inputs, {}, 16)
    network = compare(model, inputs, expected=[expected.astype(dtype)])
    assert any(node.op.on_host for node in network.graph.nodes) == (dtype == "float64")


_OUTSIDE = ["zeros", "border", "reflection"]


def _numbers(*shape: int) -> dict[str, np.ndarray]:
    """Data of ``[*shape]`` and points, some of them outside."""
    rank = len(shape) - 2
    points = RNG.uniform(-2.4, 2.4, (shape[0], *(3, 2, 4)[:rank], rank)).astype(np.float32)
    return {"x": RNG.standard_normal(shape).astype(np.float32), "g": points}


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("outside", _OUTSIDE)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_samples_of_rows(mode: str, outside: str, corners: int) -> None:
    if (mode, outside) == ("cubic", "border"):
        pytest.skip("onnx's reference takes the point to the border, onnxruntime no rows")
    attributes = {"mode": mode, "padding_mode": outside, "align_corners": corners}
    inputs = _numbers(2, 3, 7)
    network = compare(node_model("GridSample", attributes, inputs, {}, 20), inputs)
    assert not any(node.op.on_host for node in network.graph.nodes)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("outside", _OUTSIDE)
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_samples_of_a_volume(mode: str, outside: str, corners: int) -> None:
    attributes = {"mode": mode, "padding_mode": outside, "align_corners": corners}
    inputs = _numbers(2, 3, 4, 5, 3)
    inputs["g"][0, 0, 0, :2] = [[-1, 1, 0.5], [1, -1, 0]]
    compiled = (mode == "linear") == bool(corners)
    network = compare(node_model("GridSample", attributes, inputs, {}, 20), inputs, compiled)
    assert not any(node.op.on_host for node in network.graph.nodes)


def test_volumes_are_sampled_cubically_on_the_host() -> None:
    inputs = _numbers(1, 2, 3, 4, 5)
    network = compare(node_model("GridSample", {"mode": "cubic"}, inputs, {}, 20), inputs)
    assert [node.op.on_host for node in network.graph.nodes] == [True]
