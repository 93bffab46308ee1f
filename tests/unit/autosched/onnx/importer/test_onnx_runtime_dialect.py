"""What runtimes take and onnx does not: old norms, dictionaries of scores, STFT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autosched as asd
from autosched.graph.errors import ModelImportError
from autosched.graph.evaluate import evaluate
from autosched.graph.optimize import optimize
from tests.support.onnx_sessions import reference_session

RNG = np.random.default_rng(4)
X = RNG.standard_normal((2, 4, 3, 5)).astype(np.float32)
GROUPS = {"s": np.array([2, 3], np.float32), "b": np.array([1, -1], np.float32)}
LEARNED = "ai.onnx.ml"


def _model(
    nodes: Sequence[onnx.NodeProto],
    x: np.ndarray,
    constants: Mapping[str, np.ndarray],
    outputs: Sequence[onnx.ValueInfoProto] = (),
    opset: int = 18,
) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        nodes,
        "dialect",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        outputs or [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(LEARNED, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _check(model: Any, x: np.ndarray) -> None:
    (expected,) = reference_session(model.SerializeToString()).run(None, {"x": x})
    network = asd.from_onnx(model)
    for graph in (network.graph, optimize(network.graph)):
        (found,) = evaluate(graph, {"x": x}).values()
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert not any(node.op.on_host for node in network.graph.nodes)


@pytest.mark.parametrize("opset", [18, 20])
@pytest.mark.parametrize("attributes", [{}, {"epsilon": 0.5}])
def test_group_norms_with_a_scale_for_each_group(opset: int, attributes: dict[str, Any]) -> None:
    node = helper.make_node(
        "GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2, **attributes
    )
    _check(_model([node], X, GROUPS, opset=opset), X)


def test_group_norms_in_a_branch_and_in_a_function() -> None:
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    branches = []
    for name in ("then_branch", "else_branch"):
        inner = helper.make_node("GroupNormalization", ["x", "s", "b"], [name], num_groups=2)
        result = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]
        branches.append(helper.make_graph([inner], name, [], result))
    chosen = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True))),
        helper.make_node("If", ["c"], ["y"], **{b.name: b for b in branches}),
    ]
    _check(_model(chosen, X, GROUPS), X)
    opsets = [helper.make_opsetid("", 18)]
    function = helper.make_function("own", "Norm", ["x", "s", "b"], ["y"], [node], opsets)
    model = _model([helper.make_node("Norm", ["x", "s", "b"], ["y"], domain="own")], X, GROUPS)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("own", 1))
    _check(model, X)


def test_group_norms_beside_values_of_any_names() -> None:
    """The values of the nodes that replace them would have these names."""
    parts = {f"y/{part}": np.array([1.0], np.float32) for part in ("groups", "rows")}
    nodes = [
        helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2),
        helper.make_node("Add", ["y", "y/groups"], ["y/shape"]),
        helper.make_node("Mul", ["y/shape", "y/rows"], ["z"]),
    ]
    outputs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
    _check(_model(nodes, X, GROUPS | parts, outputs), X)


@pytest.mark.parametrize("operator", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_norms_of_onnxruntime_in_a_function(operator: str) -> None:
    """They are in no domain that the function or the model imports."""
    scale = {"s": np.linspace(0.5, 2, 5, dtype=np.float32)}
    node = helper.make_node(operator, ["x", "s"], ["y"])
    plain = _model([node], X, scale, opset=14)
    (expected,) = reference_session(plain.SerializeToString()).run(None, {"x": X})
    opsets = [helper.make_opsetid("", 14)]
    function = helper.make_function("own", "Norm", ["x", "s"], ["y"], [node], opsets)
    model = _model([helper.make_node("Norm", ["x", "s"], ["y"], domain="own")], X, scale, opset=14)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("own", 1))
    (found,) = evaluate(asd.from_onnx(model).graph, {"x": X}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("inputs", [["x", "s"], ["x", "s", "b"]])
def test_incomplete_group_norms_are_invalid(inputs: list[str]) -> None:
    node = helper.make_node("GroupNormalization", inputs, ["y"])
    with pytest.raises(ModelImportError, match="the model is invalid"):
        asd.from_onnx(_model([node], X, GROUPS))


def test_scores_instead_of_dictionaries() -> None:
    x = X.reshape(-1, 5)[:, :2]
    nodes = [
        helper.make_node(
            "LinearClassifier", ["x"], ["label", "scores"], domain=LEARNED,
            coefficients=[0.5, 1.0, -1.0, 0.25], intercepts=[0.1, 0.2], classlabels_ints=[3, 5],
            post_transform="SOFTMAX",
        ),
        helper.make_node(
            "ZipMap", ["scores"], ["zipped"], domain=LEARNED, classlabels_int64s=[3, 5]
        ),
    ]  # fmt: skip
    scores = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    rows = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, scores))
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, [len(x)]),
        helper.make_value_info("zipped", rows),
    ]
    model = _model(nodes, x, {}, outputs)
    label, expected = reference_session(model.SerializeToString()).run(None, {"x": x})
    found = asd.compile(asd.from_onnx(model), effort="none").run({"x": x})
    np.testing.assert_array_equal(found["label"], label)
    rows_of_scores = [[row[3], row[5]] for row in expected]
    np.testing.assert_allclose(found["zipped"], rows_of_scores, rtol=1e-6)


WINDOW = np.hanning(15).astype(np.float32)
FRAMES = {"step": np.array(8), "window": WINDOW, "length": np.array(15)}


def _transformed(x: np.ndarray, window: np.ndarray, onesided: int) -> np.ndarray:
    wide = x.reshape(*x.shape[:2], -1).astype(np.float64)
    signal = wide[..., 0] + (1j * wide[..., 1] if wide.shape[-1] == 2 else 0)
    frames = np.stack([signal[:, first : first + 15] for first in range(0, 64 - 14, 8)], 1)
    found = np.fft.fft(frames * window)[..., : 8 if onesided else 15]
    return np.stack([found.real, found.imag], -1)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((2, 64), {}),
        ((2, 64), {"onesided": 0}),
        ((2, 64, 1), {}),
        ((2, 64, 1), {"onesided": 1}),
        ((2, 64, 2), {"onesided": 0}),
    ],
)
@pytest.mark.parametrize("given", [("window", "length"), ("window",), ("", "length")])
def test_short_time_transforms(
    shape: tuple[int, ...], attributes: dict[str, int], given: tuple[str, ...]
) -> None:
    """Of real and complex signals; without an attribute one side of the spectrum."""
    onesided = attributes.get("onesided", 1)
    x = RNG.standard_normal(shape).astype(np.float32)
    constants = {name: FRAMES[name] for name in ("step", *given) if name}
    node = helper.make_node("STFT", ["x", "step", *given], ["y"], **attributes)
    model = _model([node], x, constants, opset=17)
    network = asd.from_onnx(model)
    expected = _transformed(x, WINDOW if "window" in given else np.ones(15), onesided)
    for graph in (network.graph, optimize(network.graph)):
        (found,) = evaluate(graph, {"x": x}).values()
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert not any(node.op.on_host for node in network.graph.nodes)


def test_transforms_with_unknown_frames_are_no_kernels() -> None:
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"])
    model = _model([node], np.ones((1, 64, 1), np.float32), {"window": WINDOW}, opset=17)
    model.graph.input.append(helper.make_tensor_value_info("step", TensorProto.INT64, []))
    with pytest.raises(asd.AutoschedError, match="its shape depends on data"):
        asd.from_onnx(model)


def test_the_domain_of_onnxruntime_need_not_be_imported() -> None:
    """Its optimiser for transformers returns such models."""
    domain = "com.microsoft"
    model = _model([helper.make_node("QuickGelu", ["x"], ["y"], domain=domain)], X, {})
    assert all(entry.domain != domain for entry in model.opset_import)
    _check(model, X)
    assert all(entry.domain != domain for entry in model.opset_import)  # a copy has it


def test_other_domains_have_to_be_imported() -> None:
    model = _model([helper.make_node("QuickGelu", ["x"], ["y"], domain="mine")], X, {})
    with pytest.raises(ModelImportError, match="No opset import"):
        asd.from_onnx(model)
