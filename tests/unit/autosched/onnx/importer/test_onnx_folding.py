"""Folding is a help: where onnx's own evaluator fails, the importers take the node."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.host.evaluator import HostError, HostEvaluator
from tests.support.onnx_sessions import reference_session

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((4, 6), dtype=np.float32)

NODES = {
    "Add": (["c", "d"], {}, {"c": TABLE, "d": TABLE}),
    "Concat": (["c", "d"], {"axis": 0}, {"c": TABLE, "d": TABLE}),
    "Gather": (["c", "i"], {"axis": 1}, {"c": TABLE, "i": np.array([5, 0, 3])}),
    "GatherElements": (["c", "i"], {"axis": 1}, {"c": TABLE, "i": np.array([[5, 0, 3]])}),
    "MatMul": (["c", "d"], {}, {"c": TABLE, "d": TABLE.T}),
    "ReduceSum": (["c"], {}, {"c": TABLE}),
    "Softmax": (["c"], {}, {"c": TABLE}),
    "Transpose": (["c"], {"perm": [1, 0]}, {"c": TABLE}),
    "Where": (["b", "c", "d"], {}, {"b": TABLE > 0, "c": TABLE, "d": -TABLE}),
}


def _model(operator: str) -> onnx.ModelProto:
    """x + operator(constants), x a scalar."""
    inputs, attributes, constants = NODES[operator]
    nodes = [
        helper.make_node(operator, inputs, ["computed"], **attributes),
        helper.make_node("Add", ["x", "computed"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "constant_part",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ascontiguousarray(a), name) for name, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _result(operator: str) -> np.ndarray:
    module = asd.compile(asd.from_onnx(_model(operator)), threads=1, effort="none")
    assert not module.program.host_steps
    return module.run({"x": np.ones((), np.float32)})["y"]


@pytest.mark.parametrize("operator", NODES)
def test_importers_compute_what_cannot_be_folded(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise HostError("the evaluation failed: planted")

    session = reference_session(_model(operator).SerializeToString())
    (expected,) = session.run(None, {"x": np.ones((), np.float32)})
    np.testing.assert_allclose(_result(operator), expected, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(HostEvaluator, "raw", fails)
    np.testing.assert_allclose(_result(operator), expected, rtol=1e-5, atol=1e-6)


def test_gather_elements_that_the_reference_cannot_evaluate() -> None:
    """Fewer indices than data beside the axis: onnx's evaluator takes that for an error."""
    assert _result("GatherElements").shape == (1, 3)
    np.testing.assert_array_equal(
        _result("GatherElements"), 1 + TABLE[:1, [5, 0, 3]].astype(np.float32)
    )


@pytest.mark.parametrize("operator", ["Flatten", "Relu", "Softmax", "Transpose", "Hardmax"])
@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_results_without_elements_are_known(operator: str, shape: tuple[int, ...]) -> None:
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"])],
        "empty",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    module = asd.compile(asd.from_onnx(model), threads=1, effort="none")
    expected = shape[::-1] if operator == "Transpose" else shape
    assert module.run({"x": np.zeros(shape, np.float32)})["y"].shape == expected


@pytest.mark.parametrize("data", ["c", "x"])
def test_only_the_type_of_a_cast_is_read(data: str) -> None:
    """A constant stays one; what is cast to its own type is no constant for that."""
    nodes = [
        helper.make_node("CastLike", [data, "x"], ["value"]),
        helper.make_node("Pad", ["x", "pads", "value" if data == "c" else "c"], ["padded"]),
        helper.make_node("Add", ["padded", "value"], ["y"]),
    ]
    pads = np.array([0, 0] if data == "x" else [1, 2])
    x = np.array([1, -2, 3], np.float32)
    graph = helper.make_graph(
        nodes,
        "casts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(pads, "pads"), numpy_helper.from_array(np.float32(7), "c")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (expected,) = reference_session(model.SerializeToString()).run(None, {"x": x})
    network = asd.from_onnx(model)
    assert not any(node.op.on_host for node in network.graph)
    np.testing.assert_array_equal(evaluate(network.graph, {"x": x})["y"], expected)
