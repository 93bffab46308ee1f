"""The second output of MaxPool: where the maxima come from, against a loop over all windows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import autosched as asd

pytest.importorskip("onnx")

from autosched.graph.evaluate import evaluate
from tests.support.onnx_reference import node_model

WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [1, 1]},
    {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 0, 0, 2]},
    {"kernel_shape": [3, 2], "strides": [3, 2], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
    {"kernel_shape": [2, 2], "dilations": [2, 3], "storage_order": 1},
]


def _expected(x: NDArray[Any], shape: tuple[int, ...], window: dict[str, Any]) -> NDArray[Any]:
    """The first largest element of every window in the whole flattened data."""
    height, width = x.shape[2:]
    strides, steps = window.get("strides", [1, 1]), window.get("dilations", [1, 1])
    pads = window.get("pads", [0] * 4)
    found = np.zeros(shape, np.int64)
    for n, c, i, j in np.ndindex(*shape):
        best = None
        for a, b in product(*map(range, window["kernel_shape"])):
            h, w = i * strides[0] - pads[0] + a * steps[0], j * strides[1] - pads[1] + b * steps[1]
            if 0 <= h < height and 0 <= w < width and (best is None or x[n, c, h, w] > best):
                best = x[n, c, h, w]
                place = h + w * height if window.get("storage_order") else h * width + w
                found[n, c, i, j] = (n * x.shape[1] + c) * height * width + place
    return found


@pytest.mark.parametrize("window", WINDOWS)
def test_positions_of_maxima(window: dict[str, Any]) -> None:
    x = np.random.default_rng(0).integers(-2, 3, (2, 3, 7, 8)).astype(np.float32)
    model = node_model("MaxPool", window, {"x": x}, {}, 12, ("y", "where"))
    network = asd.from_onnx(model)
    assert not any(node.op.on_host for node in network.graph.nodes)
    for results in (
        evaluate(network.graph, {"x": x}),
        asd.compile(network, effort="none").run({"x": x}),
    ):
        where = results["where"]
        np.testing.assert_array_equal(where, _expected(x, where.shape, window))
        if not window.get("storage_order"):
            np.testing.assert_array_equal(x.reshape(-1)[where], results["y"])
