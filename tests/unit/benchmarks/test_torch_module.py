"""Networks as PyTorch modules compute what onnxruntime computes."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import zoo
from autosched.onnx.export import to_onnx
from autosched.zoo.bert import Bert, add_bert
from autosched.zoo.layers import LayerBuilder
from benchmarks.harness import relative_error
from tests.support.lazily import lazily
from tests.support.onnx_sessions import reference_session

torch = lazily("torch")


def _bert():
    layers = LayerBuilder("bert", seed=0)
    add_bert(layers, Bert(layers=1, heads=2, hidden=16, inner=24, words=50), 1, 5)
    return layers.finish()


def _block():
    layers = LayerBuilder("block", seed=0)
    x = layers.input((1, 3, 4, 6, 6), (1, 3, 4, 6, 6))
    x = layers.relu6(layers.conv_bn(x, "conv", 4, 3, 2), "relu6")
    layers.dense(layers.global_avg_pool(x, "pool"), "fc", 3)
    return layers.finish()


@pytest.mark.parametrize(
    "make",
    [_bert, _block, zoo.dcgan, lambda: zoo.squeezenet(image=33), lambda: zoo.mlp(image=4)],
    ids=["bert", "block", "dcgan", "squeezenet", "mlp"],
)
def test_agrees_with_onnxruntime(make):
    from benchmarks.rivals.torch_module import module_from_onnx

    network = make()
    model = to_onnx(network.graph).SerializeToString()
    rng = np.random.default_rng(0)
    feeds = {
        v.name: rng.standard_normal(v.shape, dtype=np.float32)
        if v.dtype == "float32"
        else rng.integers(50, size=v.shape)
        for v in network.inputs
    }
    module, names, outputs = module_from_onnx(model)
    session = reference_session(model)
    with torch.inference_mode():
        results = module(*(torch.from_numpy(feeds[name]) for name in names))
    for result, reference in zip(results, session.run(outputs, feeds), strict=True):
        assert relative_error(result.numpy(), reference) < 1e-5


def test_transformers_get_the_fast_forms():
    from benchmarks.rivals.torch_module import module_from_onnx

    module, _, _ = module_from_onnx(to_onnx(_bert().graph).SerializeToString())
    called = [getattr(node.target, "__name__", "") for node in module.graph.nodes]
    assert called.count("linear") == 7 and called.count("gelu") == 1
    assert called.count("layer_norm") == 3 and "erf" not in called
