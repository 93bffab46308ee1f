"""Layers as models that everyone runs, and what their rows have to reach."""

from __future__ import annotations

import numpy as np
import pytest

import autosched as asd
from autosched.graph.evaluate import evaluate
from benchmarks.layers import LAYERS, Layer, model_of

pytest.importorskip("onnx")


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_a_layer_is_a_model_of_as_many_operators(layer: Layer) -> None:
    model = model_of(layer)
    assert [node.op_type for node in model.graph.node] == [layer.kind] * layer.count
    network = asd.from_onnx(model)
    assert [value.shape for value in network.outputs] == [layer.shape]


def test_results_of_a_chain_stay_of_the_size_of_its_data() -> None:
    layer = Layer("chain", "Conv", (1, 4, 16, 16), count=8, groups=4)
    graph = asd.from_onnx(model_of(layer)).graph
    data = np.random.default_rng(1).standard_normal(layer.shape).astype(np.float32)
    (result,) = evaluate(graph, {"t0": data}).values()
    assert 0.05 < result.std() < 20


def test_bars() -> None:
    row = {
        "ratios": {"openvino": {"ratio_low": 1.2}, "torch_eager": {"ratio_low": 0.9}},
        "of_limit": 0.8,
        "max_error": 1e-6,
    }
    assert all(Layer("x", "Softmax", (4, 4), 1.1, 0.7, rivals=("openvino",)).bars(row).values())
    everyone = Layer("x", "Softmax", (4, 4), 1.1, 0.7).bars(row)
    assert [holds for what, holds in everyone.items() if "ratio_low" in what] == [False]
    far = Layer("x", "Softmax", (4, 4), limit_bar=0.9).bars(row | {"max_error": 1e-3})
    assert list(far.values()) == [False, False]
