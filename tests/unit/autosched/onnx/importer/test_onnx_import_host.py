"""ONNX import: what no kernel computes is expanded, decided, or left to the host."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network
from autosched.graph.ops.base import TensorType
from autosched.graph.ops.host import HostOp
from autosched.host.evaluator import HostError
from autosched.onnx.importer import from_onnx
from autosched.onnx.importer.functions import expanded
from autosched.onnx.importer.piece import Setting
from autosched.onnx.importer.site import UnsupportedError
from tests.support.onnx_sessions import reference_session

X = np.random.default_rng(1).standard_normal((3, 4), dtype=np.float32)


def _model(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, np.ndarray] | None = None,
    output: tuple[int, Sequence[int] | None] = (TensorProto.FLOAT, None),
    x: np.ndarray = X,
    opset: int = 18,
) -> onnx.ModelProto:
    """A model from ``x`` to ``y``."""
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info("y", *output)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _check(model: onnx.ModelProto, x: np.ndarray = X) -> Network:
    """Import, evaluate, compare with onnxruntime; returns the network."""
    network = from_onnx(model)
    session = reference_session(model.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    value = evaluate(network.graph, {"x": x})["y"]
    assert network.outputs[0].shape == expected.shape
    assert network.outputs[0].dtype == str(expected.dtype)
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    return network


def _on_host(network: Network) -> list[str]:
    return [n.op.function.operator for n in network.graph.nodes if isinstance(n.op, HostOp)]


def test_nodes_without_an_importer_run_on_the_host() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Det", ["a3"], ["d"], name="determinant"),
        helper.make_node("Add", ["d", "d"], ["y"]),
    ]
    nodes.insert(1, helper.make_node("Slice", ["a", "from", "to", "axis"], ["a3"]))
    constants = {"from": np.array([0]), "to": np.array([3]), "axis": np.array([1])}
    network = _check(_model(nodes, constants))
    assert _on_host(network)[-1] == "Det"
    module = asd.compile(network, threads=1)
    assert "Det (determinant) runs on the host" in module.summary()
    np.testing.assert_allclose(
        module.run({"x": X})["y"], 2 * np.linalg.det(np.maximum(X, 0)[:, :3]), rtol=1e-4
    )


def test_values_without_static_types_stay_within_one_host_operator() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0, name="split"),
        helper.make_node("SequenceLength", ["parts"], ["length"]),
        helper.make_node("SequenceAt", ["parts", "one"], ["part"]),
        helper.make_node("NonZero", ["part"], ["positions"]),
        helper.make_node("Shape", ["positions"], ["counts"]),
        helper.make_node("Add", ["counts", "length"], ["y"]),
    ]
    model = _model(nodes, {"one": np.array(1)}, (TensorProto.INT64, None))
    network = _check(model)
    operators = _on_host(network)
    assert "SplitToSequence+SequenceAt" in operators
    assert "NonZero+Shape" in operators
    assert "SplitToSequence+SequenceLength" in operators


def test_shapes_that_a_model_promises_are_checked_when_it_runs() -> None:
    model = _model([helper.make_node("NonZero", ["x"], ["y"])], None, (TensorProto.INT64, (2, 12)))
    module = asd.compile(from_onnx(model), threads=1)
    np.testing.assert_array_equal(module.run({"x": X})["y"], np.nonzero(X))
    with pytest.raises(HostError, match=r"\(2, 0\) on these inputs, \(2, 12\) is what the model"):
        module.run({"x": np.zeros_like(X)})


def test_types_that_kernels_do_not_know_pass_between_host_operators() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.UINT16),
        helper.make_node("BitShift", ["wide", "two"], ["shifted"], direction="LEFT"),
        helper.make_node("Cast", ["shifted"], ["y"], to=TensorProto.FLOAT),
    ]
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    model = _model(nodes, {"two": np.array(2, np.uint16)})
    network = from_onnx(model)
    types = {node.output: network.graph.types[node.output] for node in network.graph.nodes}
    assert types["shifted"].dtype == "uint16"
    module = asd.compile(network, threads=1)
    np.testing.assert_array_equal(module.run({"x": x})["y"], x * 4)


def test_strings_and_empty_tensors() -> None:
    words = np.array(["a", "b", "cc"], dtype=object)
    join = helper.make_node("StringConcat", ["x", "x"], ["y"])
    model = _model([join], None, (TensorProto.STRING, None), words, 20)
    module = asd.compile(from_onnx(model), threads=1)
    assert module.run({"x": words})["y"].tolist() == ["aa", "bb", "cccc"]
    assert module.run(module.random_inputs())["y"].shape == (3,)
    empty = np.zeros((0, 3), np.float32)
    model = _model([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=1)], x=empty)
    np.testing.assert_array_equal(
        asd.compile(from_onnx(model), threads=1).run({"x": empty})["y"], np.zeros((1, 1))
    )


def test_strings_that_are_returned_as_they_are() -> None:
    values = [helper.make_tensor_value_info("s", TensorProto.STRING, [2])]
    graph = helper.make_graph([], "same", values, values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    module = asd.compile(from_onnx(model), threads=1)
    found = module.run({"s": np.array(["hello there", "general"])})["s"]
    assert [f"number {n} " * 3 for n in range(2000)]  # would take the place of strings let go of
    assert found.tolist() == ["hello there", "general"]
    out = np.array(["", ""], dtype=object)
    module.run({"s": np.array(["one", "two"])}, out={"s": out})
    assert out.tolist() == ["one", "two"]


def test_a_scalar_is_padded_by_nothing() -> None:
    pad = helper.make_node("Pad", ["x", "pads"], ["y"])
    x = np.float32(3.0)
    model = _model([pad], {"pads": np.zeros(0, np.int64)}, x=np.asarray(x))
    module = asd.compile(from_onnx(model), threads=1)
    assert module.run({"x": np.asarray(x)})["y"] == x


def test_constants_that_overflow_are_infinite_without_a_warning() -> None:
    nodes = [
        helper.make_node("Mul", ["big", "ten"], ["huge"]),
        helper.make_node("Add", ["x", "huge"], ["y"]),
    ]
    model = _model(nodes, {"big": np.array(3e38, np.float32), "ten": np.array(10, np.float32)})
    with warnings.catch_warnings(action="error", category=RuntimeWarning):
        module = asd.compile(from_onnx(model), threads=1)
    assert np.isposinf(module.run({"x": X})["y"]).all()


def test_constant_outputs_of_any_type() -> None:
    value = numpy_helper.from_array(np.arange(3, dtype=np.uint16))
    model = _model(
        [helper.make_node("Constant", [], ["y"], value=value)], None, (TensorProto.UINT16, None)
    )
    module = asd.compile(from_onnx(model), threads=1)
    np.testing.assert_array_equal(module.run({"x": X})["y"], np.arange(3))


@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_expanded_whatever_is_left_out(opset: int, masked: bool) -> None:
    """Its past is given without a mask, or with one; the function asks for the types of both."""
    rng = np.random.default_rng(0)
    shapes = {"x": (1, 2, 3, 8), "k": (1, 2, 4, 8), "v": (1, 2, 4, 8), "mask": (3, 7)}
    arrays = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    inputs = ["x", "x", "x", "mask" if masked else "", "k", "v"]
    model = _model(
        [helper.make_node("Attention", inputs, ["y", "keys", "values"])], opset=opset, x=arrays["x"]
    )
    for name in ("k", "v", *(["mask"] if masked else [])):
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, arrays[name].shape)
        model.graph.input.append(info)
    network = from_onnx(model)
    assert not _on_host(network)
    given = {info.name: arrays[info.name] for info in model.graph.input}
    (expected,) = reference_session(model.SerializeToString()).run(None, given)
    found = evaluate(network.graph, given)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_operators_with_a_function_body_are_expanded() -> None:
    node = helper.make_node("ReduceSumSquare", ["x"], ["y"], name="energy", keepdims=1)
    setting = Setting((helper.make_opsetid("", 18),), 9, {}, {})
    types = {"x": TensorType((3, 4), "float32")}
    body = expanded(node, "energy", {}, types, setting)
    assert [(inner.op_type, list(inner.output)) for inner in body][-1] == ("ReduceSum", ["y"])
    assert all(inner.name.startswith("energy/") for inner in body)
    with pytest.raises(UnsupportedError):
        expanded(helper.make_node("Det", ["x"], ["y"]), "det", {}, types, setting)
    origins = {origin for n in _check(_model([node])).graph.nodes for origin in n.origins}
    assert origins == {"energy"}


def test_local_functions_are_inlined() -> None:
    body = [helper.make_node("Relu", ["v"], ["r"]), helper.make_node("Add", ["r", "v"], ["w"])]
    opsets = [helper.make_opsetid("", 18)]
    function = helper.make_function("com.example", "Twice", ["v"], ["w"], body, opsets)
    model = _model([helper.make_node("Twice", ["x"], ["y"], domain="com.example")])
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    _check(model)


def _branch(name: str, operator: str) -> onnx.GraphProto:
    nodes = [
        helper.make_node(operator, ["shared"], ["inner"]),
        helper.make_node("Mul", ["inner", "factor"], ["result"]),
    ]
    out = helper.make_tensor_value_info("result", TensorProto.FLOAT, None)
    factor = numpy_helper.from_array(np.array([2], np.float32), "factor")
    return helper.make_graph(nodes, name, [], [out], [factor])


def _conditional(condition: str) -> list[onnx.NodeProto]:
    branches = {"then_branch": _branch("a", "Relu"), "else_branch": _branch("b", "Abs")}
    return [
        helper.make_node("Tanh", ["x"], ["shared"]),
        helper.make_node("If", [condition], ["first"], name="choice", **branches),
        helper.make_node("If", [condition], ["second"], name="again", **branches),
        helper.make_node("Add", ["first", "second"], ["y"]),
    ]


@pytest.mark.parametrize("condition", [True, False])
def test_a_constant_condition_is_decided_at_import(condition: bool) -> None:
    network = _check(_model(_conditional("flag"), {"flag": np.array(condition)}))
    assert _on_host(network) == []


def test_a_condition_on_data_chooses_results() -> None:
    decide = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["flag"]),
    ]
    model = _model(decide + _conditional("flag"), {"zero": np.array(0, np.float32)})
    for x in (np.abs(X), -np.abs(X)):
        assert _on_host(_check(model, x)) == []


def test_loops_run_on_the_host() -> None:
    typed = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["state", "x"], ["next"]),
        ],
        "body",
        [typed("i", 7, ()), typed("go", 9, ()), typed("state", 1, (3, 4))],
        [typed("go_on", 9, ()), typed("next", 1, (3, 4))],
    )
    loop = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    assert _on_host(_check(_model([loop], {"count": np.array(3)}))) == ["Loop"]


def test_maps_over_sequences_run_on_the_host() -> None:
    """Their body cannot be written without the types of sequences, which nothing says."""
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "eo"]
    body = helper.make_graph([helper.make_node("Relu", ["e"], ["o"])], "b", info[:1], info[1:])
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0, keepdims=0),
        helper.make_node("SequenceMap", ["parts"], ["positive"], body=body),
        helper.make_node("ConcatFromSequence", ["positive"], ["y"], axis=0, new_axis=1),
    ]
    network = _check(_model(nodes, output=(TensorProto.FLOAT, (3, 4))))
    assert _on_host(network) == ["SplitToSequence+SequenceMap+ConcatFromSequence"]


def test_random_operators_are_refused() -> None:
    dropout = helper.make_node("Dropout", ["x", "ratio", "training"], ["y"], name="drop")
    constants = {"ratio": np.array(0.5, np.float32), "training": np.array(True)}
    with pytest.raises(asd.AutoschedError, match=r"Dropout 'drop' \(Dropout draws new random"):
        from_onnx(_model([dropout], constants))
