"""The networks that come with the onnx package, with random weights, against onnxruntime."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import autosched as asd
from tests.support.onnx_sessions import reference_session

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
    "squeezenet", "vgg19", "zfnet512",
)  # fmt: skip


def _with_random_weights(path: Path) -> onnx.ModelProto:
    """The model with its constant-filled weights drawn anew, so that activations stay O(1)."""
    model = onnx.load(path)
    model.ir_version = 8  # before 4, weights had to be inputs
    rng = np.random.default_rng(0)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(node)
            continue
        shape = tuple(shapes[node.input[0]].tolist())
        if len(shape) > 1:
            scale = np.sqrt(2 / np.prod(shape[1:]))
            weight = rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        else:  # biases and what batch normalisation needs, among it a positive variance
            weight = rng.uniform(0.5, 1.0, shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, node.output[0]))
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_light_models_agree_with_onnxruntime(name: str, tmp_path: Path) -> None:
    model = _with_random_weights(LIGHT / f"light_{name}.onnx")
    path = tmp_path / f"{name}.onnx"
    onnx.save(model, path)
    network = asd.from_onnx(path)
    module = asd.compile(network, effort="none")
    inputs = module.random_inputs()
    session = reference_session(path)
    expected = session.run(None, inputs)
    outputs = module.run(inputs)
    for value, reference in zip(outputs.values(), expected, strict=True):
        assert value.shape == reference.shape
        assert np.abs(value - reference).max() <= 1e-3 * np.abs(reference).max()
        assert np.abs(reference).max() > np.abs(reference).min()
