"""Sparse weights are dense once they are imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autosched as asd
from autosched.graph.errors import ModelImportError
from autosched.graph.evaluate import evaluate

X = np.arange(8, dtype=np.float32).reshape(2, 4)
DENSE = np.zeros((4, 3), np.float32)
DENSE[0, 1], DENSE[1, 2] = 3, 4


def _sparse(indices: Any) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.array([3, 4], np.float32), "w")
    places = numpy_helper.from_array(np.asarray(indices, np.int64))
    return helper.make_sparse_tensor(values, places, [4, 3])


def _model(indices: Any, constant: bool) -> Any:
    sparse = _sparse(indices)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    if constant:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse))
    graph = helper.make_graph(
        nodes,
        "sparse",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        sparse_initializer=[] if constant else [sparse],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_weights(indices: Any, constant: bool) -> None:
    network = asd.from_onnx(_model(indices, constant))
    (found,) = evaluate(network.graph, {"x": X}).values()
    np.testing.assert_array_equal(found, X @ DENSE)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("indices", [[1, 12], [-1, 5], [1], [[0, 1], [4, 2]]])
def test_indices_that_do_not_fit(indices: Any, constant: bool) -> None:
    with pytest.raises(ModelImportError):
        asd.from_onnx(_model(indices, constant))


def test_sparse_texts() -> None:
    """Those that are absent are empty."""
    texts = helper.make_tensor("w", TensorProto.STRING, [1], [b"a"])
    sparse = helper.make_sparse_tensor(texts, numpy_helper.from_array(np.array([1])), [2])
    nodes = [
        helper.make_node("Constant", [], ["w"], sparse_value=sparse),
        helper.make_node("Identity", ["w"], ["y"]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.STRING, None)
    graph = helper.make_graph(nodes, "texts", [], [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (found,) = evaluate(asd.from_onnx(model).graph, {}).values()
    assert found.tolist() == ["", "a"]
