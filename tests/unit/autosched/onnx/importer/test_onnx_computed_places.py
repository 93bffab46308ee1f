"""ScatterND and ScatterElements at places that data say are kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autosched as asd
from autosched.graph.optimize import optimize
from autosched.onnx.importer import from_onnx
from tests.support.onnx_reference import compare, node_model

RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 4, 5)).astype(np.float32)


def updates(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return (3 * RNG.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_index_tuples(reduction: str, depth: int) -> None:
    lead = X.shape[:depth]
    flat = RNG.permutation(np.prod(lead))[:6] if reduction == "none" else RNG.integers(0, 5, 6)
    tuples = np.stack(np.unravel_index(flat, lead), axis=-1).reshape(2, 3, depth)
    tuples[0] -= np.asarray(lead)  # count from the end
    inputs = {"x": X, "i": tuples, "u": updates((2, 3, *X.shape[depth:]))}
    model = node_model("ScatterND", {"reduction": reduction}, inputs, {}, 18, order="xiu")
    network = compare(model, inputs, compiled=True)
    assert not any(node.op.on_host for node in network.graph.nodes)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_elements(reduction: str, axis: int, dtype: str) -> None:
    extent = X.shape[axis]
    order = np.argsort(RNG.standard_normal(X.shape), axis=axis)[
        tuple(slice(0, 3) if d == axis else slice(None) for d in range(3))
    ]
    places = np.where(RNG.random(order.shape) < 0.3, order - extent, order)
    if reduction != "none":
        places = np.concatenate([places, places], axis)
    inputs = {"x": X.astype(dtype), "i": places, "u": updates(places.shape, dtype)}
    attributes = {"reduction": reduction, "axis": axis}
    model = node_model("ScatterElements", attributes, inputs, {}, 18, order="xiu")
    network = compare(model, inputs, compiled=True)
    assert [node.op.kind for node in network.graph.nodes] == ["scatter"]


def test_tuples_out_of_range_change_nothing() -> None:
    tuples = np.array([[0, 4], [-8, 0], [6, -5], [10**12, 1], [2, 3]])
    inputs = {"x": X, "i": tuples, "u": np.ones((5, 5), np.float32)}
    wanted = X.copy()
    wanted[2, 3] = 1
    compare(node_model("ScatterND", {}, inputs, {}, 18, order="xiu"), inputs, True, [wanted])


def repeated_places(zeros: bool) -> onnx.ModelProto:
    """What PyTorch's ``x.scatter_add(0, i[:, None].expand(-1, 6), u)`` becomes."""
    data = np.zeros((5, 6), np.float32)
    nodes = [
        helper.make_node("Expand", ["i", "shape"], ["places"]),
        helper.make_node("ScatterElements", ["x", "places", "u"], ["y"], axis=0, reduction="add"),
    ]
    floats, ints = TensorProto.FLOAT, TensorProto.INT64
    values = {"i": (ints, (8, 1)), "u": (floats, (8, 6)), "x": (floats, (5, 6))}
    given = [
        helper.make_tensor_value_info(n, *t) for n, t in values.items() if n != "x" or not zeros
    ]
    constants = [onnx.numpy_helper.from_array(np.array([8, 6]), "shape")]
    constants += [onnx.numpy_helper.from_array(data, "x")] if zeros else []
    out = helper.make_tensor_value_info("y", floats, (5, 6))
    graph = helper.make_graph(nodes, "repeated", given, [out], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("zeros", [True, False])
def test_places_are_read_once_and_zeros_are_not(zeros: bool) -> None:
    network = from_onnx(repeated_places(zeros))
    (node,) = optimize(network.graph).nodes
    assert node.inputs == (("i", "u") if zeros else ("x", "i", "u"))
    inputs: dict[str, Any] = {"i": RNG.integers(0, 5, (8, 1)), "u": updates((8, 6))}
    data = np.zeros((5, 6), np.float32) if zeros else updates((5, 6))
    wanted = data.copy()
    np.add.at(wanted, inputs["i"][:, 0], inputs["u"])
    found = asd.compile(network).run(inputs if zeros else {**inputs, "x": data})
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("given", [(1, 6), (1,), (8, 1), (1, 1)])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_places_that_are_repeated_along_their_axis(given: tuple[int, ...], reduction: str) -> None:
    inputs = {"i": RNG.integers(0, 5, given), "u": updates((8, 6)), "x": updates((5, 6))}
    nodes = [
        helper.make_node("Expand", ["i", "shape"], ["places"]),
        helper.make_node("ScatterElements", ["x", "places", "u"], ["y"], reduction=reduction),
    ]
    types = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in inputs.items()}
    values = [helper.make_tensor_value_info(n, types[n], a.shape) for n, a in inputs.items()]
    shape = onnx.numpy_helper.from_array(np.array([8, 6]), "shape")
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, (5, 6))
    graph = helper.make_graph(nodes, "repeated", values, [out], [shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    compare(model, inputs, compiled=True)
