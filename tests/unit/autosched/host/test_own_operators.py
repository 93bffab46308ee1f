"""Operators of which onnx's reference has no implementation, or one of a part of the standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.host.engines import ReferenceEngine
from tests.support.onnx_sessions import reference_session

Arrays = dict[str, np.ndarray]
X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)


def _info(name: str, shape: Sequence[int] | None, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def _model(
    nodes: Sequence[onnx.NodeProto],
    feeds: Arrays,
    outputs: Sequence[str] = ("y",),
    kind: int = TensorProto.FLOAT,
    opset: int = 18,
) -> onnx.ModelProto:
    inputs = [
        _info(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in feeds.items()
    ]
    results = [_info(name, None, kind) for name in outputs]
    graph = helper.make_graph(nodes, "own", inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _run(model: onnx.ModelProto, feeds: Arrays) -> list[Any]:
    return ReferenceEngine(model.SerializeToString()).evaluate(feeds)


def _scan(shape: Sequence[int], **sides: Sequence[int]) -> onnx.NodeProto:
    nodes = [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Mul", ["t", "e"], ["o"])]
    ends = [_info(name, shape) for name in "seto"]
    body = helper.make_graph(nodes, "body", ends[:2], ends[2:])
    return helper.make_node("Scan", ["s0", "x"], ["z", "y"], body=body, num_scan_inputs=1, **sides)


@pytest.mark.parametrize("input_axis", [0, 1, -1])
@pytest.mark.parametrize("output_axis", [0, 1, -1])
@pytest.mark.parametrize("directions", [(0, 0), (0, 1), (1, 0)])
def test_scans_along_any_axis_in_both_directions(
    input_axis: int, output_axis: int, directions: tuple[int, int]
) -> None:
    shape = np.delete(X.shape, input_axis).tolist()
    sides = {"scan_input_axes": [input_axis], "scan_output_axes": [output_axis]}
    sides |= {"scan_input_directions": directions[:1], "scan_output_directions": directions[1:]}
    feeds = {"s0": np.ones(shape, np.float32), "x": X}
    model = _model([_scan(shape, **sides)], feeds, ["z", "y"])
    expected = reference_session(model.SerializeToString()).run(None, feeds)
    for found, right in zip(_run(model, feeds), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-6)


def _loop(shape: Sequence[Any]) -> onnx.NodeProto:
    nodes = [
        helper.make_node("Identity", ["go"], ["again"]),
        helper.make_node("Neg", ["s"], ["t"]),
        helper.make_node("Abs", ["s"], ["o"]),
    ]
    inputs = [_info("i", (), TensorProto.INT64), _info("go", (), TensorProto.BOOL)]
    outputs = [_info("again", (), TensorProto.BOOL), _info("t", None), _info("o", shape)]
    body = helper.make_graph(nodes, "body", [*inputs, _info("s", None)], outputs)
    return helper.make_node("Loop", ["count", "", "x"], ["z", "y"], body=body)


def test_loops_without_an_iteration_collect_nothing() -> None:
    count = helper.make_node("Constant", [], ["count"], value_int=0)
    model = _model([count, _loop((3, 4, 5))], {"x": X}, ["z", "y"])
    state, collected = _run(model, {"x": X})
    np.testing.assert_array_equal(state, X)
    assert (collected.shape, collected.dtype) == ((0, 3, 4, 5), np.float32)
    found = evaluate(asd.from_onnx(model).graph, {"x": X})
    assert found["y"].shape == (0, 3, 4, 5)


def test_what_a_loop_collects_has_to_have_a_shape() -> None:
    count = helper.make_node("Constant", [], ["count"], value_int=0)
    model = _model([count, _loop(("n", 4, 5))], {"x": X}, ["z", "y"])
    with pytest.raises(ValueError, match="their shape is open"):
        _run(model, {"x": X})


def test_elements_of_optional_values_come_out_of_them() -> None:
    nodes = [
        helper.make_node("Optional", ["x"], ["full"]),
        helper.make_node("OptionalGetElement", ["full"], ["element"]),
        helper.make_node("OptionalGetElement", ["element"], ["same"]),
        helper.make_node("Relu", ["same"], ["y"]),
    ]
    model = _model(nodes, {"x": X})
    module = asd.compile(asd.from_onnx(model), effort="none")
    np.testing.assert_array_equal(module.run({"x": X})["y"], np.maximum(X, 0))


@pytest.mark.parametrize("value", ["full", "empty", "x"])
def test_whether_optional_values_have_an_element(value: str) -> None:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, X.shape)
    nodes = [
        helper.make_node("Optional", ["x"], ["full"]),
        helper.make_node("Optional", [], ["empty"], type=kind),
        helper.make_node("OptionalHasElement", [value], ["y"]),
    ]
    (found,) = _run(_model(nodes, {"x": X}, kind=TensorProto.BOOL), {"x": X})
    assert found == (value != "empty")


def test_an_empty_optional_value_has_no_element() -> None:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, X.shape)
    nodes = [
        helper.make_node("Optional", [], ["empty"], type=kind),
        helper.make_node("OptionalGetElement", ["empty"], ["y"]),
    ]
    with pytest.raises(ValueError, match="empty"):
        _run(_model(nodes, {}), {})


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("opset", [9, 10])
def test_the_old_name_of_scattered_elements(axis: int, opset: int) -> None:
    feeds = {"x": X, "i": np.array([[[0, -1], [1, 2]]]), "u": -np.ones((1, 2, 2), np.float32)}
    model = _model([helper.make_node("Scatter", list(feeds), ["y"], axis=axis)], feeds, opset=opset)
    (expected,) = reference_session(model.SerializeToString()).run(None, feeds)
    network = asd.from_onnx(model)
    module = asd.compile(network, effort="none")
    for found in (evaluate(network.graph, feeds), module.run(feeds)):
        np.testing.assert_array_equal(found["y"], expected)
