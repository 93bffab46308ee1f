"""ONNX import: models as exporters write them, against onnxruntime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autosched import zoo
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Network
from autosched.graph.optimize import optimize
from autosched.onnx.export import to_onnx
from autosched.onnx.importer import from_onnx
from tests.support.onnx_sessions import reference_session

Shape = Sequence[int | str]
MAP = (2, 4, 9, 7)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def _model(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, np.ndarray] | None = None,
    shape: Shape = MAP,
    opset: int = 17,
    outputs: Sequence[str] = ("y",),
) -> onnx.ModelProto:
    """A model with the input ``x``."""
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _check(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None) -> Network:
    """Import, optimise, compare with onnxruntime."""
    network = from_onnx(model, shapes)
    rng = np.random.default_rng(2)
    inputs = {v.name: rng.standard_normal(v.shape, dtype=np.float32) for v in network.inputs}
    session = reference_session(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    assert [value.name for value in network.outputs] == names
    for graph in (network.graph, optimize(network.graph)):
        values = evaluate(graph, inputs)
        for name, reference in zip(names, session.run(names, inputs), strict=True):
            assert values[name].shape == reference.shape
            np.testing.assert_allclose(values[name], reference, rtol=1e-4, atol=1e-5)
    return network


Node = tuple[str, dict[str, Any], dict[str, np.ndarray]]
_HALF, _TWO = np.float32(0.5), np.float32(2)

SINGLE: list[tuple[int, Node]] = [
    (17, ("Conv", {"pads": [1, 2, 0, 1], "strides": [2, 1]}, {"w": _random(3, 4, 3, 3)})),
    (17, ("Conv", {"group": 2, "dilations": [2, 1]}, {"w": _random(6, 2, 3, 3), "b": _random(6)})),
    (17, ("Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"w": _random(3, 4, 4, 3)})),
    (17, ("Conv", {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, {"w": _random(3, 4, 4, 3)})),
    (17, ("Conv", {"auto_pad": "VALID"}, {"w": _random(3, 4, 3, 3)})),
    (
        15,
        (
            "BatchNormalization",
            {"epsilon": 1e-3},
            {"s": _random(4), "b": _random(4), "m": _random(4), "v": np.abs(_random(4)) + _HALF},
        ),
    ),
    (17, ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, {})),
    (17, ("MaxPool", {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1}, {})),
    (17, ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, {})),
    (17, ("AveragePool", {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER"}, {})),
    (
        17,
        (
            "AveragePool",
            {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
            {},
        ),
    ),
    (17, ("GlobalAveragePool", {}, {})),
    (17, ("GlobalMaxPool", {}, {})),
    (17, ("ReduceMean", {"axes": [2, 3]}, {})),
    (18, ("ReduceMean", {"keepdims": 0}, {"axes": np.array([-1, -2])})),
    (13, ("ReduceSum", {}, {"axes": np.array([1])})),
    (17, ("ReduceMax", {"axes": [-1], "keepdims": 0}, {})),
    (17, ("Relu", {}, {})),
    (17, ("LeakyRelu", {"alpha": 0.2}, {})),
    (17, ("Sigmoid", {}, {})),
    (17, ("Tanh", {}, {})),
    (10, ("Clip", {"min": 0.0, "max": 6.0}, {})),
    (17, ("Clip", {}, {"low": np.float32(-1), "high": _HALF})),
    (17, ("Add", {}, {"c": _random(4, 1, 1)})),
    (17, ("Mul", {}, {"c": _TWO})),
    (17, ("Sub", {}, {"c": _random(7)})),
    (17, ("Div", {}, {"c": np.abs(_random(2, 1, 9, 1)) + _HALF})),
    (17, ("Max", {}, {"c": _random(7), "d": _random(9, 1), "e": _HALF})),
    (17, ("Min", {}, {})),
    (17, ("Softmax", {"axis": 1}, {})),
    (11, ("Softmax", {"axis": 2}, {})),
    (17, ("Flatten", {}, {})),
    (17, ("Flatten", {"axis": -1}, {})),
    (17, ("Flatten", {"axis": 0}, {})),
    (17, ("Reshape", {}, {"shape": np.array([0, -1, 3])})),
    (17, ("Transpose", {}, {})),
    (17, ("Transpose", {"perm": [0, 2, 3, 1]}, {})),
    (17, ("Unsqueeze", {}, {"axes": np.array([0, -1])})),
    (11, ("Unsqueeze", {"axes": [1]}, {})),
    (17, ("Concat", {"axis": -1}, {"c": _random(2, 4, 9, 2)})),
    (17, ("Pad", {}, {"pads": np.array([0, 0, 1, 2, 0, 1, 0, 0])})),
    (18, ("Pad", {}, {"pads": np.array([1, 2]), "value": _HALF, "axes": np.array([-2])})),
    (9, ("Pad", {"pads": [0, 0, 1, 0, 0, 0, 0, 2], "value": 1.5}, {})),
    (17, ("MatMul", {}, {"w": _random(7, 5)})),
    (17, ("MatMul", {}, {"w": _random(4, 7, 5)})),
    (17, ("Identity", {}, {})),
    (11, ("Dropout", {"ratio": 0.3}, {})),
    (17, ("Dropout", {}, {"ratio": _HALF})),
]


@pytest.mark.parametrize(("opset", "node"), SINGLE, ids=lambda v: v[0] if len(str(v)) > 3 else v)
def test_operators(opset: int, node: Node) -> None:
    operator, attributes, constants = node
    inputs = ["x", *constants]
    _check(
        _model([helper.make_node(operator, inputs, ["y"], **attributes)], constants, opset=opset)
    )


@pytest.mark.parametrize(
    ("attributes", "constants"),
    [
        ({"transB": 1}, {"w": _random(6, 8), "b": _random(6)}),
        ({"alpha": 0.5, "beta": 2.0}, {"w": _random(8, 6), "b": _random(1, 6)}),
        ({"transA": 1}, {"w": _random(5, 6)}),
        ({"beta": 0.5}, {"w": _random(8, 6), "b": _random(5, 6)}),
        ({}, {"w": _random(8, 6), "b": np.float32(3)}),
    ],
)
def test_gemm(attributes: dict[str, Any], constants: dict[str, np.ndarray]) -> None:
    node = helper.make_node("Gemm", ["x", *constants], ["y"], **attributes)
    _check(_model([node], constants, (5, 8)))


def test_gemm_of_computed_matrices() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Gemm", ["x", "r", "r"], ["y"], alpha=0.5, beta=2.0, transB=1),
    ]
    _check(_model(nodes, {}, (5, 5)))


def test_computed_shapes_fold() -> None:
    """x.view(x.size(0), -1), as older exporters write it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], axis=0),
        helper.make_node("Unsqueeze", ["batch", "axes"], ["batch1"]),
        helper.make_node("Constant", [], ["rest"], value_ints=[-1]),
        helper.make_node("Concat", ["batch1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    model = _model(nodes, {"zero": np.array(0), "axes": np.array([0])})
    network = _check(model)
    assert [node.op.kind for node in network.graph.nodes] == ["reshape"]


def test_constant_subgraphs_fold_and_may_be_outputs() -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "wt"], ["y"]),
    ]
    model = _model(nodes, {"w": _random(5, 8)}, (3, 8), outputs=("y", "wt"))
    assert len(_check(model).graph.nodes) == 1


def test_nodes_without_names_and_with_equal_names() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="same"),
        helper.make_node("Tanh", ["a"], ["b"], name="same"),
        helper.make_node("Sigmoid", ["b"], ["y"]),
    ]
    network = from_onnx(_model(nodes))
    assert [node.name for node in network.graph.nodes] == ["same", "b", "y"]


def test_unused_second_outputs_are_ignored() -> None:
    pool = helper.make_node("MaxPool", ["x"], ["y", "where"], kernel_shape=[2, 2])
    _check(_model([pool]))


def test_symbolic_dimensions_take_given_shapes() -> None:
    model = _model([helper.make_node("Relu", ["x"], ["y"])], {}, ("N", 3, "H", "H"))
    assert _check(model, {"x": (2, 3, 5, 5)}).inputs[0].shape == (2, 3, 5, 5)


def test_local_functions_are_inlined() -> None:
    body = [
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Mul", ["a", "s"], ["b"]),
    ]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("com.example", "Silu", ["a"], ["b"], body, opsets)
    model = _model([helper.make_node("Silu", ["x"], ["y"], domain="com.example")])
    model.functions.append(function)
    assert len(_check(model).graph.nodes) == 2


@pytest.mark.parametrize(
    "name",
    ["mlp", *(pytest.param(n, marks=pytest.mark.slow) for n in ("mobilenet-v2", "resnet-18"))],
)
def test_networks_come_back_as_they_went(name: str, tmp_path: Path) -> None:
    network = zoo.build(name, image=32)
    path = tmp_path / f"{name}.onnx"
    onnx.save(to_onnx(network.graph), path)
    again = from_onnx(path)
    assert (again.name, again.inputs, again.outputs) == (name, network.inputs, network.outputs)
    tasks = [dag.key for dag, _ in extract(network).tasks]
    assert [dag.key for dag, _ in extract(again).tasks] == tasks


def test_external_data_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mlp.onnx"
    network = zoo.build("mlp", image=8)
    onnx.save(to_onnx(network.graph), path, save_as_external_data=True, size_threshold=0)
    again = from_onnx(str(path)).graph
    x = {"data": _random(1, 64)}
    np.testing.assert_array_equal(
        evaluate(again, x)["logits"], evaluate(network.graph, x)["logits"]
    )
