"""Operators of ``ai.onnx.ml``: onnxruntime defines what they compute."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.host.engines import ONNXRUNTIME, OnnxruntimeEngine, exact_engine, fastest_engine
from tests.support.onnx_sessions import reference_session

DOMAIN = "ai.onnx.ml"
STUMP = {
    "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3,
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip
SECOND_CLASS_ALONE = {
    "classlabels_int64s": [0, 1], "class_ids": [1, 1], "class_nodeids": [1, 2],
    "class_treeids": [0, 0], "class_weights": [0.9, 0.2], **STUMP,
}  # fmt: skip
VECTORS = {
    "classlabels_ints": [0, 1, 2], "kernel_type": "RBF", "kernel_params": [0.5, 0.3, 3.0],
    "vectors_per_class": [2, 1, 1], "support_vectors": [0.5, 1.0, -1.0, 0.0, 2.0, 1.0, 0.0, 0.5],
    "coefficients": [0.3, -0.2, 0.7, 1.0, -0.5, 0.25, 0.5, -1.0], "rho": [0.1, -0.2, 0.3],
    "prob_a": [-1.0, -0.5, -0.7], "prob_b": [0.1, 0.2, 0.3],
}  # fmt: skip
MISSED_TARGET = {
    "n_targets": 2, "target_ids": [0, 1], "target_nodeids": [1, 2], "target_treeids": [0, 0],
    "target_weights": [2.0, 3.0], "aggregate_function": "MAX", **STUMP,
}  # fmt: skip
X = np.array([[0.25, -3.0], [1.0, 2.0], [0.5, 0.0]], np.float32)
CASES: dict[str, tuple[str, np.ndarray, int, dict[str, Any]]] = {
    "one class alone": ("TreeEnsembleClassifier", X, 2, SECOND_CLASS_ALONE),
    "a target without a leaf": ("TreeEnsembleRegressor", X, 1, MISSED_TARGET),
    "probabilities": ("SVMClassifier", X, 2, VECTORS),
    "integers": (
        "Scaler",
        np.array([[1, 2], [3, 8]]),
        1,
        {"offset": [1.5, 1.0], "scale": [0.5, 0.25]},
    ),
    "negative maxima": ("Normalizer", -np.abs(X) - 1, 1, {"norm": "MAX"}),
    "right in both": ("Binarizer", X, 1, {"threshold": 0.3}),
}


def _model(name: str) -> tuple[Any, np.ndarray]:
    operator, x, count, attributes = CASES[name]
    outputs = [f"y{index}" for index in range(count)]
    types = [TensorProto.INT64] * (count - 1) + [TensorProto.FLOAT]
    node = helper.make_node(operator, ["x"], outputs, domain=DOMAIN, **attributes)
    infos = [helper.make_tensor_value_info(n, t, None) for n, t in zip(outputs, types, strict=True)]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    given = helper.make_tensor_value_info("x", kind, x.shape)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 3)]
    graph = helper.make_graph([node], "learned", [given], infos)
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), x


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnxruntime(name: str) -> None:
    model, x = _model(name)
    payload = model.SerializeToString()
    expected = reference_session(payload).run(None, {"x": x})
    network = asd.from_onnx(model)
    module = asd.compile(network, effort="none")
    for found in (evaluate(network.graph, {"x": x}), module.run({"x": x})):
        for own, right in zip(found.values(), expected, strict=True):
            np.testing.assert_allclose(own, right, rtol=1e-6)
    assert exact_engine(payload).name == fastest_engine(payload).name == ONNXRUNTIME


@pytest.mark.parametrize("name", CASES)
def test_without_onnxruntime_what_onnx_has_wrong_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ImportError("no module named onnxruntime")

    model, x = _model(name)
    monkeypatch.setattr(OnnxruntimeEngine, "__init__", missing)
    if name == "right in both":
        (found,) = evaluate(asd.from_onnx(model).graph, {"x": x}).values()
        np.testing.assert_array_equal(found, X > 0.3)
    else:
        with pytest.raises(asd.AutoschedError, match="needs onnxruntime: no module named"):
            asd.from_onnx(model)
