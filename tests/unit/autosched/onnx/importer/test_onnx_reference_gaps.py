"""Nodes that onnx's reference implementation computes wrongly: refused, not run on the host."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.errors import UnsupportedModelError
from autosched.graph.evaluate import evaluate
from sketch.errors import AutoschedError

pytest.importorskip("onnx")
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from autosched.onnx.importer.reference_gaps import reference_gap
from tests.support.onnx_reference import compare, node_model

HIDDEN, LENGTH, BATCH, WIDTH = 3, 5, 2, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _recurrent(
    operator: str,
    lengths: list[int] | None = None,
    both: bool = False,
    x: np.ndarray | None = None,
    **attributes: Any,
) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    directions, rows = 1 + both, GATES[operator] * HIDDEN
    if x is None:
        x = np.sin(np.arange(LENGTH * BATCH * WIDTH)).reshape(LENGTH, BATCH, WIDTH)
    x = x.astype(np.float32)
    constants = {
        "w": rng.standard_normal((directions, rows, WIDTH)).astype(np.float32),
        "r": rng.standard_normal((directions, rows, HIDDEN)).astype(np.float32),
    }
    order = ["x", "w", "r"]
    if lengths is not None:
        constants["lengths"] = np.array(lengths, np.int32)
        order += ["", "lengths"]
    direction = "bidirectional" if both else "forward"
    options = {"hidden_size": HIDDEN, "direction": direction, **attributes}
    model = node_model(operator, options, {"x": x}, constants, 14, ("y",), order)
    return model, x


@pytest.mark.parametrize(
    ("operator", "options", "reason"),
    [
        ("LSTM", {"lengths": [LENGTH, LENGTH]}, "sequence_lens"),
        ("LSTM", {"clip": 0.5}, "clip"),
        ("LSTM", {"input_forget": 1}, "input_forget"),
        ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"]}, "activations"),
        ("GRU", {"activations": ["Sigmoid", "Tanh", "Tanh", "Tanh"], "both": True}, "activa"),
        ("RNN", {"activations": ["Tanh", "Affine"], "both": True}, "activations"),
    ],
)
def test_what_the_reference_ignores_is_known(
    operator: str, options: dict[str, Any], reason: str
) -> None:
    """Wherever it runs on the host, as in the body of a Loop; alone it becomes kernels."""
    model, _ = _recurrent(operator, **options)
    gap = reference_gap(model.graph.node, 14)
    assert gap is not None
    assert re.search(f"{operator} ignores .*{reason}", gap)
    assert not any(node.op.on_host for node in asd.from_onnx(model).graph.nodes)


def test_what_the_reference_ignores_is_not_folded() -> None:
    """The same values, whether the data is an input or a constant."""
    model, x = _recurrent("GRU", [2, LENGTH], clip=0.25)
    (expected,) = evaluate(asd.from_onnx(model).graph, {"x": x}).values()
    model.graph.initializer.append(numpy_helper.from_array(x, "x"))
    del model.graph.input[:]
    (found,) = evaluate(asd.from_onnx(model).graph, {}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("LSTM", {"activations": ["Sigmoid", "Tanh", "Tanh"] * 2, "both": True}),
        ("GRU", {"linear_before_reset": 1}),
        ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
    ],
)
def test_what_the_reference_knows(operator: str, options: dict[str, Any]) -> None:
    model, x = _recurrent(operator, **options)
    assert reference_gap(model.graph.node, 14) is None
    compare(model, {"x": x})


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("operator", GATES)
def test_sequences_of_different_lengths(operator: str, both: bool) -> None:
    """Each is what it would be alone; behind its end there are zeros."""
    lengths = [3, LENGTH]
    model, x = _recurrent(operator, lengths, both)
    (found,) = asd.compile(asd.from_onnx(model), effort="none").run({"x": x}).values()
    for number, length in enumerate(lengths):
        alone, _ = _recurrent(operator, None, both, x=x[:length, number : number + 1])
        evaluator = ReferenceEvaluator(alone)
        (expected,) = evaluator.run(None, {"x": x[:length, number : number + 1]})
        np.testing.assert_allclose(found[:length, :, number], expected[:, :, 0], 1e-6, 1e-6)
        np.testing.assert_array_equal(found[length:, :, number], 0)


@pytest.mark.parametrize("length", [-1, LENGTH + 1])
def test_lengths_beyond_the_data_are_an_error(length: int) -> None:
    model, _ = _recurrent("GRU", [LENGTH, length])
    with pytest.raises(AutoschedError, match=rf"lengths .* must be 0 to 5, got \[5, {length}\]"):
        asd.from_onnx(model)


def test_cubic_sampling_beyond_the_border_is_refused() -> None:
    inputs = {"x": np.ones((1, 1, 4, 4)), "g": np.ones((1, 2, 2, 2))}  # no kernel of float64
    attributes = {"mode": "cubic", "padding_mode": "border"}
    with pytest.raises(UnsupportedModelError, match="GridSample ignores"):
        asd.from_onnx(node_model("GridSample", attributes, inputs, {}, 20))


ROIS = np.array([[1.0, 1.5, 7.0, 9.0], [0.0, 2.0, 10.0, 6.0]], np.float32)


def _regions(opset: int, **attributes: Any) -> np.ndarray:
    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal((1, 2, 12, 12)).astype(np.float32), "rois": ROIS}
    sizes = {"output_height": 3, "output_width": 3, "sampling_ratio": 2, **attributes}
    constants = {"batch": np.zeros(2, np.int64)}
    network = asd.from_onnx(node_model("RoiAlign", sizes, inputs, constants, opset))
    (found,) = asd.compile(network, effort="none").run(inputs).values()
    return found


def test_regions_of_an_older_opset_are_not_shifted() -> None:
    old = _regions(11)
    plain = _regions(16, coordinate_transformation_mode="output_half_pixel")
    np.testing.assert_array_equal(old, plain)
    assert np.abs(old - _regions(16)).max() > 0.1


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("attributes", [{}, {"axis": 1}, {"axis": 0}])
def test_constants_of_an_older_opset_are_rows_of_a_matrix(
    operator: str, attributes: dict[str, int]
) -> None:
    """Folded or not, the numbers are the same."""
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    (expected,) = evaluate(
        asd.from_onnx(node_model(operator, attributes, {"x": x}, {}, 11)).graph, {"x": x}
    ).values()
    folded = asd.from_onnx(node_model(operator, attributes, {}, {"x": x}, 11))
    (found,) = evaluate(folded.graph, {}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("operator", "opset", "options"),
    [
        ("Softmax", 12, {"axis": 1}),
        ("BatchNormalization", 9, {}),
        ("LRN", 13, {"size": 3}),
        ("LpNormalization", 13, {"p": 1}),
        ("GlobalMaxPool", 12, {}),
        ("MaxPool", 12, {"kernel_shape": [3, 3], "ceil_mode": 1}),
        ("AveragePool", 11, {"kernel_shape": [2, 2, 2]}),
    ],
)
def test_operators_that_the_reference_has_wrong(
    operator: str, opset: int, options: dict[str, Any]
) -> None:
    node = helper.make_node(operator, ["x"], ["y"], **options)
    gap = reference_gap([node], opset)
    assert gap is not None
    assert operator in gap


@pytest.mark.parametrize(
    ("operator", "opset", "options"),
    [
        ("Softmax", 12, {"axis": -1}),
        ("Softmax", 13, {"axis": 1}),
        ("BatchNormalization", 14, {}),
        ("LpNormalization", 13, {}),
        ("MaxPool", 12, {"kernel_shape": [3, 3]}),
    ],
)
def test_operators_that_the_reference_has_right(
    operator: str, opset: int, options: dict[str, Any]
) -> None:
    node = helper.make_node(operator, ["x"], ["y"], **options)
    assert reference_gap([node], opset) is None
