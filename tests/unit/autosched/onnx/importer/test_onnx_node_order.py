"""Models whose nodes are not in order, as onnxruntime takes them and its tools write them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autosched.graph.errors import ModelImportError
from autosched.graph.evaluate import evaluate
from autosched.onnx.importer import from_onnx
from autosched.onnx.importer.node_order import in_order
from tests.support.onnx_sessions import reference_session

X = np.array([1, -2, 3], np.float32)


def _model(nodes: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("x", "y"))
    flag = numpy_helper.from_array(np.array(True), "flag")
    graph = helper.make_graph(nodes, "g", [x], [y], [flag])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _check(model: onnx.ModelProto) -> None:
    (expected,) = reference_session(model.SerializeToString()).run(None, {"x": X})
    found = evaluate(from_onnx(model).graph, {"x": X})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_nodes_are_put_behind_those_that_they_read() -> None:
    make = helper.make_node
    nodes = [
        make("Add", ["a", "b"], ["y"]),
        make("Neg", ["a"], ["b"]),
        make("Abs", ["x"], ["unused"]),
        make("Exp", ["x"], ["a"]),
    ]
    model = _model(nodes)
    _check(model)
    assert [node.op_type for node in in_order(model).graph.node] == ["Exp", "Neg", "Add", "Abs"]
    assert [node.op_type for node in model.graph.node] == ["Add", "Neg", "Abs", "Exp"]


def test_branches_wait_for_what_they_read_from_outside() -> None:
    make = helper.make_node
    nodes = [make("Relu", ["outer"], ["c"]), make("Mul", ["c", "outer"], ["r"])]
    info = helper.make_tensor_value_info("r", TensorProto.FLOAT, [3])
    branch = helper.make_graph(nodes, "branch", [], [info])
    choice = make("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)
    _check(_model([choice, make("Sin", ["x"], ["outer"])]))


def test_a_model_in_order_is_not_copied() -> None:
    model = _model([helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Abs", ["a"], ["y"])])
    assert in_order(model) is model


def test_nodes_that_read_each_other_are_refused() -> None:
    make = helper.make_node
    model = _model(
        [make("Add", ["x", "b"], ["a"]), make("Neg", ["a"], ["b"]), make("Abs", ["a"], ["y"])]
    )
    with pytest.raises(ModelImportError, match="topologically sorted"):
        from_onnx(model)


def test_what_the_converter_to_16_bits_makes_of_a_model() -> None:
    converter = pytest.importorskip("onnxruntime.transformers.float16")
    nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Abs", ["a"], ["y"])]
    model = converter.convert_float_to_float16(_model(nodes), keep_io_types=True)
    assert model.graph.node[0].op_type != "Cast"  # which is the first that is computed
    _check(model)
